//! Limits of the machine and of this user: open files and memory.

use super::Finding;
use crate::config::{Config, Engine};
use crate::serve::Parts;
use bytesize::ByteSize;
use millrace_ingest::HttpLimits;
use rustix::process::{Resource, getrlimit};
use std::fs::read_to_string;
use std::path::Path;

const FILES: &str = "open files";
const MEMORY: &str = "memory";
/// Files beside connections: segments of the log, the catalog, connections to ClickHouse.
const OWN_FILES: u64 = 1_000;
/// Memory of everything beside ClickHouse and bodies of requests, in bytes.
const OWN_BYTES: u64 = 512 << 20;
const KIB: u64 = 1_024;

/// Checks the limit of open files, of which each connection takes one.
pub(super) fn open_files(parts: Parts) -> Finding {
    let connections = match parts.ingest {
        true => u64::try_from(HttpLimits::default().connections_max).unwrap_or(u64::MAX),
        false => 0,
    };
    let needed = connections.saturating_add(OWN_FILES);
    files_finding(getrlimit(Resource::Nofile).current, needed)
}

/// Judges a limit of open files; `None` is no limit.
fn files_finding(limit: Option<u64>, needed: u64) -> Finding {
    let Some(limit) = limit else {
        return Finding::ok(FILES, "there is no limit of open files");
    };
    let found = format!("the limit of open files is {limit}, and {needed} may be needed");
    if limit >= needed {
        return Finding::ok(FILES, found);
    }
    let advice = "run `ulimit -n 65536` before the server, or set LimitNOFILE=65536 in its unit; at the limit \
                  connections are refused";
    Finding::warning(FILES, found, advice)
}

/// Checks the memory of the machine, or of the control group that this process is in.
pub(super) fn memory(config: &Config, parts: Parts) -> Option<Finding> {
    let of_engine = match &config.engine {
        Engine::Embedded {
            memory_bytes_max, ..
        } if parts.ingest => *memory_bytes_max,
        _ => 0,
    };
    let of_bodies = match parts.ingest {
        true => u64::try_from(HttpLimits::default().in_flight_bytes_max).unwrap_or(u64::MAX),
        false => 0,
    };
    let needed = of_engine
        .saturating_add(of_bodies)
        .saturating_add(OWN_BYTES);
    let machine = total_bytes(&read_to_string("/proc/meminfo").ok()?);
    let limits = [machine, group_limit()];
    let available = limits.into_iter().flatten().min()?;
    Some(memory_finding(available, needed))
}

fn memory_finding(available: u64, needed: u64) -> Finding {
    let found = format!(
        "there are {}, and up to {} may be needed under load",
        ByteSize::b(available),
        ByteSize::b(needed)
    );
    if available >= needed {
        return Finding::ok(MEMORY, found);
    }
    let advice = "give the machine or the container more, or lower clickhouse_memory; beyond its memory the system \
                  ends processes";
    Finding::warning(MEMORY, found, advice)
}

/// Memory of the machine, in bytes, as `/proc/meminfo` has it.
fn total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib.saturating_mul(KIB))
}

/// Memory limit of the control group of this process (cgroup v2), in bytes.
fn group_limit() -> Option<u64> {
    let groups = read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let file = Path::new("/sys/fs/cgroup").join(path).join("memory.max");
    // Without a limit it is `max`.
    read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    #[test]
    fn limits_below_what_is_needed_are_warned_of() {
        let table = [
            (files_finding(None, 11_000), Status::Ok),
            (files_finding(Some(11_000), 11_000), Status::Ok),
            (files_finding(Some(1_024), 11_000), Status::Warning),
            (memory_finding(4 << 30, 4 << 30), Status::Ok),
            (memory_finding(1 << 30, 4 << 30), Status::Warning),
        ];
        for (finding, status) in table {
            assert_eq!(finding.status, status, "{finding:?}");
        }
    }

    #[test]
    fn the_memory_of_the_machine_is_read() {
        let table = [
            ("MemTotal:       16 kB\nMemFree: 1 kB\n", Some(16_384)),
            ("MemFree: 1 kB\n", None),
            ("MemTotal: many kB\n", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(total_bytes(text), expected, "{text:?}");
        }
    }
}
