//! Machine and commit of a measurement.

use crate::wall_clock::{seconds_text, since_epoch};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::process::Command;

/// A machine, with the measured commit and the date.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the processor.
    pub cpu: String,
    /// Number of available CPUs.
    pub cpus: usize,
    /// Release of the kernel.
    pub kernel: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Commit, with a `+` if there are uncommitted changes.
    pub commit: String,
    /// Date and time in UTC.
    pub date: String,
}

impl Machine {
    /// Describes this machine.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub fn read() -> Result<Self> {
        let read = |path: &str| {
            std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))
        };
        let seconds = i64::try_from(since_epoch().as_secs()).unwrap_or_default();
        let date = String::from_utf8_lossy(&seconds_text(seconds)).into_owned();
        Ok(Self {
            cpu: value_of(&read("/proc/cpuinfo")?, "model name")
                .unwrap_or_else(|| "unknown".into()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            memory_bytes: memory_bytes(&read("/proc/meminfo")?),
            commit: commit(),
            date: format!("{date}Z"),
        })
    }
}

/// Value of a key in `key : value` lines.
fn value_of(text: &str, key: &str) -> Option<String> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = pairs.find(|(name, _)| name.trim() == key)?;
    Some(value.trim().to_owned())
}

fn memory_bytes(meminfo: &str) -> u64 {
    let total = value_of(meminfo, "MemTotal");
    let kib = total.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

/// Commit that is checked out; "unknown" outside a repository.
#[must_use]
pub fn commit() -> String {
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".to_owned();
    };
    // Files that a run writes are not a change of the measured program.
    let changes = git(&[
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        ":!benches",
    ]);
    let mark = if changes.is_none_or(|changes| changes.is_empty()) {
        ""
    } else {
        "+"
    };
    format!("{commit}{mark}")
}

/// Number of commits from a measured one to the one that is checked out; none if the repository
/// does not have it.
#[must_use]
pub fn commits_since(commit: &str) -> Option<u64> {
    let measured = commit.trim_end_matches('+');
    let is_id = !measured.is_empty() && measured.chars().all(|it| it.is_ascii_hexdigit());
    let range = is_id.then(|| format!("{measured}..HEAD"))?;
    git(&["rev-list", "--count", &range])?.parse().ok()
}

/// Output of git; none if it failed.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let is_good = output.status.success();
    is_good.then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_and_memory() {
        let machine = Machine::read().unwrap();
        assert!(!machine.kernel.is_empty());
        assert!(machine.memory_bytes > 0 && machine.cpus > 0);
    }

    #[test]
    fn commits_are_counted_from_one_that_the_repository_has() {
        let table = [
            (commit(), Some(0)),
            ("0000000000ff".to_owned(), None),
            ("--all".to_owned(), None),
            (String::new(), None),
        ];
        for (measured, commits) in table {
            let known = measured != "unknown";
            assert_eq!(
                commits_since(&measured),
                commits.filter(|_| known),
                "{measured}"
            );
        }
    }

    #[test]
    fn keys_are_found_among_lines() {
        let text = "processor\t: 0\nmodel name\t: EPYC: fast\n\nmodel name\t: other\n";
        assert_eq!(value_of(text, "model name").unwrap(), "EPYC: fast");
        assert_eq!(value_of(text, "model"), None);
        assert_eq!(memory_bytes("MemTotal:   24 kB\n"), 24 * 1024);
    }
}
