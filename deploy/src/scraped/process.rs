//! Processor, memory, files and threads of the process, by the names that Prometheus' own clients
//! give them, and of the embedded engine's process beside it.
//!
//! All of it is read from `/proc`; where there is none, or a file cannot be read, lines are left
//! out.

use super::text::{Kind, describe, sample};
use millrace_rows::{Clock, SystemClock};
use rustix::param::{clock_ticks_per_second, page_size};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

const START: &str = "process_start_time_seconds";
/// Number of a field of `/proc/<pid>/stat`, counted from 1 as in proc(5).
const USER_TICKS: usize = 14;
const SYSTEM_TICKS: usize = 15;
const THREADS: usize = 20;
const VIRTUAL_BYTES: usize = 23;
const RESIDENT_PAGES: usize = 24;

/// Time at which the process began to count, in seconds since 1970.
static STARTED: OnceLock<f64> = OnceLock::new();
/// Process of the embedded engine; 0 while there is none.
static ENGINE_PID: AtomicU32 = AtomicU32::new(0);

/// Names of the metrics of a process.
struct Names {
    cpu_seconds: &'static str,
    resident_bytes: &'static str,
    virtual_bytes: &'static str,
    threads: &'static str,
    open_files: &'static str,
    open_files_max: &'static str,
}

const OWN: Names = Names {
    cpu_seconds: "process_cpu_seconds_total",
    resident_bytes: "process_resident_memory_bytes",
    virtual_bytes: "process_virtual_memory_bytes",
    threads: "process_threads",
    open_files: "process_open_fds",
    open_files_max: "process_max_fds",
};
const ENGINE: Names = Names {
    cpu_seconds: "millrace_engine_cpu_seconds_total",
    resident_bytes: "millrace_engine_resident_memory_bytes",
    virtual_bytes: "millrace_engine_virtual_memory_bytes",
    threads: "millrace_engine_threads",
    open_files: "millrace_engine_open_fds",
    open_files_max: "millrace_engine_max_fds",
};

/// State of a process as the kernel tells it.
#[derive(Debug, PartialEq)]
struct ProcessState {
    cpu_seconds: f64,
    resident_bytes: u64,
    virtual_bytes: u64,
    threads: u64,
    open_files: Option<u64>,
    open_files_max: Option<u64>,
}

/// Notes the time at which the process started.
pub(super) fn note_start() {
    STARTED.get_or_init(|| SystemClock.now().0 as f64 / 1e6);
}

/// Notes the process of the engine; `None` while it does not run.
pub fn note_engine(pid: Option<u32>) {
    ENGINE_PID.store(pid.unwrap_or(0), Ordering::Relaxed);
}

/// Appends the metrics of the process and of its engine.
pub(super) fn append(page: &mut String) {
    if let Some(state) = ProcessState::read("self") {
        write(page, &OWN, "the process", &state);
    }
    if let Some(started) = STARTED.get() {
        let description = "Start of the process, in seconds since 1970";
        describe(page, START, Kind::Gauge, description);
        sample(page, START, started);
    }
    let pid = ENGINE_PID.load(Ordering::Relaxed);
    if pid > 0
        && let Some(state) = ProcessState::read(&pid.to_string())
    {
        write(page, &ENGINE, "the embedded ClickHouse", &state);
    }
}

fn write(page: &mut String, names: &Names, whose: &str, state: &ProcessState) {
    let description = format!("Time of the processor that {whose} has used");
    describe(page, names.cpu_seconds, Kind::Counter, &description);
    sample(page, names.cpu_seconds, state.cpu_seconds);
    let gauges = [
        (
            names.resident_bytes,
            "Resident memory",
            Some(state.resident_bytes),
        ),
        (
            names.virtual_bytes,
            "Virtual memory",
            Some(state.virtual_bytes),
        ),
        (names.threads, "Threads", Some(state.threads)),
        (names.open_files, "Open files and sockets", state.open_files),
        (
            names.open_files_max,
            "Limit on open files and sockets",
            state.open_files_max,
        ),
    ];
    for (name, what, value) in gauges {
        if let Some(value) = value {
            describe(page, name, Kind::Gauge, &format!("{what} of {whose}"));
            sample(page, name, value);
        }
    }
}

// === impl ProcessState ===

impl ProcessState {
    /// Reads the state of a process; `None` if there is no such process, or no `/proc`.
    fn read(process: &str) -> Option<Self> {
        let folder = Path::new("/proc").join(process);
        let state = Self::parse(&std::fs::read_to_string(folder.join("stat")).ok()?)?;
        let limits = std::fs::read_to_string(folder.join("limits")).ok();
        // Another user's files are not shown.
        let open = std::fs::read_dir(folder.join("fd")).ok();
        Some(Self {
            open_files: open.map(|files| files.count() as u64),
            open_files_max: limits.as_deref().and_then(files_max),
            ..state
        })
    }

    /// Parses `/proc/<pid>/stat`. The name of the program, its second field, may hold anything,
    /// also a parenthesis.
    fn parse(stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let ticks = number(USER_TICKS)? + number(SYSTEM_TICKS)?;
        Some(Self {
            cpu_seconds: ticks as f64 / clock_ticks_per_second() as f64,
            resident_bytes: number(RESIDENT_PAGES)?.saturating_mul(page_size() as u64),
            virtual_bytes: number(VIRTUAL_BYTES)?,
            threads: number(THREADS)?,
            open_files: None,
            open_files_max: None,
        })
    }
}

/// Soft limit on open files in `/proc/<pid>/limits`; `None` if there is none.
fn files_max(limits: &str) -> Option<u64> {
    let mut lines = limits.lines();
    let values = lines.find_map(|line| line.strip_prefix("Max open files"))?;
    values.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_process_is_read_whatever_its_name() {
        let stat = "7 (a) 9 (b) S 1 7 7 0 -1 4194560 8 0 1 0 150 50 0 0 25 5 12 0 99 4096000 25 \
                    18446744073709551615 1 1";
        let state = ProcessState::parse(stat).unwrap();
        assert_eq!(state.cpu_seconds, 200.0 / clock_ticks_per_second() as f64);
        assert_eq!(state.threads, 12);
        assert_eq!(state.virtual_bytes, 4_096_000);
        assert_eq!(state.resident_bytes, 25 * page_size() as u64);
        assert_eq!(ProcessState::parse("7 (a) S 1"), None);
        assert_eq!(ProcessState::parse(""), None);
    }

    #[test]
    fn the_limit_on_files_is_the_soft_one() {
        let head = "Limit                     Soft Limit           Hard Limit           Units\n";
        for (line, limit) in [
            (
                "Max open files            1024                 524288               files",
                Some(1024),
            ),
            (
                "Max open files            unlimited            unlimited            files",
                None,
            ),
            ("Max processes             5                    5", None),
        ] {
            assert_eq!(files_max(&format!("{head}{line}\n")), limit, "{line}");
        }
    }

    #[test]
    fn the_page_has_this_process_and_the_one_that_was_noted() {
        note_start();
        let mut page = String::new();
        append(&mut page);
        assert!(!page.contains("millrace_engine_"), "{page}");
        assert!(page.contains("\nprocess_cpu_seconds_total "), "{page}");
        for name in [OWN.resident_bytes, OWN.open_files, START] {
            let mut values = page.lines().filter_map(|line| line.split_once(' '));
            let value = values.find(|(known, _)| *known == name);
            let value: f64 = value.unwrap().1.parse().unwrap();
            assert!(value > 0.0, "{name}: {page}");
        }
        note_engine(Some(std::process::id()));
        append(&mut page);
        note_engine(None);
        assert!(page.contains("\nmillrace_engine_threads "), "{page}");
    }
}
