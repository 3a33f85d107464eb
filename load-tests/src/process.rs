//! CPU time and memory of processes, from `/proc`, and the output of children.

use anyhow::{Context, Result, bail};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::process::ChildStdout;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// Resources that a process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU seconds in user and kernel mode, of all threads, without children.
    pub cpu_seconds: f64,
    /// Resident memory in bytes.
    pub rss_bytes: u64,
}

impl Usage {
    /// Usage of a process; `None` means this process.
    ///
    /// # Errors
    /// The process does not exist (any more), or there is no `/proc`.
    pub fn of(pid: Option<u32>) -> Result<Self> {
        let name = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
        let path = format!("/proc/{name}/stat");
        let stat = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        Self::parse(&stat).with_context(|| format!("{path} is not what proc(5) says"))
    }

    /// Parses `stat`; fields are counted after the command, which may contain any character.
    pub(crate) fn parse(stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let field = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let ticks = field(11)? + field(12)?;
        Some(Self {
            cpu_seconds: ticks as f64 / rustix::param::clock_ticks_per_second() as f64,
            rss_bytes: field(21)? * rustix::param::page_size() as u64,
        })
    }
}

/// Waits until a child prints a line with `ready` in it; `None` if it closes its output before.
///
/// Later output is read and dropped: a full pipe would block the child, and a closed one might end
/// it.
///
/// # Errors
/// The output cannot be read, or the line does not come in time.
pub fn wait_for_line(
    output: ChildStdout,
    ready: &str,
    wait_max: Duration,
) -> Result<Option<String>> {
    let (found, finding) = sync_channel(1);
    let wanted = ready.to_owned();
    std::thread::Builder::new()
        .name("child-output".to_owned())
        .spawn(move || {
            let mut output = BufReader::new(output);
            // Nobody receives a line that came too late.
            let _ = found.send(line_with(&wanted, &mut output));
            std::io::copy(&mut output, &mut std::io::sink())
        })
        .context("cannot start a thread")?;
    match finding.recv_timeout(wait_max) {
        Ok(line) => line.context("a child's output"),
        Err(_) => bail!("a child did not print {ready:?} within {wait_max:?}"),
    }
}

fn line_with(wanted: &str, output: &mut impl BufRead) -> std::io::Result<Option<String>> {
    let mut line = String::new();
    while output.read_line(&mut line)? > 0 {
        if line.contains(wanted) {
            return Ok(Some(line));
        }
        line.clear();
    }
    Ok(None)
}

/// Pins the calling thread to one CPU.
///
/// # Errors
/// The CPU does not exist, or this process may not use it.
pub fn pin_this_thread(cpu: usize) -> Result<()> {
    let mut cpus = CpuSet::new();
    if cpu < CpuSet::MAX_CPU {
        cpus.set(cpu);
    }
    sched_setaffinity(None, &cpus).with_context(|| format!("cannot pin to CPU {cpu}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_command_with_spaces_and_brackets_does_not_shift_the_fields() {
        let stat = "12 (a ) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 4 0 99 1000 7 18446";
        let usage = Usage::parse(stat).unwrap();
        let second = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(usage.cpu_seconds, 200.0 / second);
        assert_eq!(usage.rss_bytes, 7 * rustix::param::page_size() as u64);
    }

    #[test]
    fn this_process_has_used_memory() {
        assert!(Usage::of(None).unwrap().rss_bytes > 0);
        assert!(Usage::of(Some(u32::MAX)).is_err());
    }

    #[test]
    fn a_child_that_is_not_ready_in_time_is_an_error() {
        let mut child = Command::new("sh")
            .args(["-c", "echo not yet; exec sleep 600"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = child.stdout.take().unwrap();
        let error = wait_for_line(output, "ready", Duration::from_millis(1)).unwrap_err();
        assert!(error.to_string().contains("\"ready\""), "{error}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
