//! CPU time of a process's threads, by name.

use crate::process::Usage;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs::{read_dir, read_to_string};
use std::path::Path;

/// CPU time that each thread of a process has used so far.
#[derive(Clone, Debug, Default)]
pub struct Threads(BTreeMap<u32, Thread>);

#[derive(Clone, Debug, PartialEq)]
struct Thread {
    /// Name without its number, so that threads of the same role share it.
    name: String,
    cpu_seconds: f64,
}

impl Threads {
    /// Reads all threads. A thread that ends meanwhile is left out.
    ///
    /// # Errors
    /// The process does not exist (any more), or there is no `/proc`.
    pub fn of(pid: u32) -> Result<Self> {
        let path = format!("/proc/{pid}/task");
        let folder = read_dir(&path).with_context(|| format!("cannot read {path}"))?;
        let threads = folder.filter_map(|entry| {
            let entry = entry.ok()?;
            let id = entry.file_name().to_str()?.parse().ok()?;
            Some((id, Thread::read(&entry.path())?))
        });
        Ok(Self(threads.collect()))
    }

    /// CPU seconds by name since an earlier reading of the same process. The time of threads that
    /// have ended is lost.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> BTreeMap<String, f64> {
        let mut by_name = BTreeMap::new();
        for (id, thread) in &self.0 {
            let before = earlier.0.get(id).map_or(0.0, |before| before.cpu_seconds);
            *by_name.entry(thread.name.clone()).or_default() += thread.cpu_seconds - before;
        }
        by_name
    }
}

impl Thread {
    fn read(task: &Path) -> Option<Self> {
        let comm = read_to_string(task.join("comm")).ok()?;
        // The scheduler counts nanoseconds in `schedstat`; `stat` has ticks of 10 ms, but always
        // exists.
        let precise = read_to_string(task.join("schedstat")).ok();
        let cpu_seconds = match precise.as_deref().and_then(seconds_of_schedstat) {
            Some(seconds) => seconds,
            None => Usage::parse(&read_to_string(task.join("stat")).ok()?)?.cpu_seconds,
        };
        Some(Self {
            name: role(comm.trim_end()).to_owned(),
            cpu_seconds,
        })
    }
}

/// Parses `schedstat`, whose first field is the nanoseconds on a CPU.
fn seconds_of_schedstat(text: &str) -> Option<f64> {
    let nanoseconds: u64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    Some(nanoseconds as f64 / 1e9)
}

fn role(name: &str) -> &str {
    let role = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let role = role.trim_end_matches(['-', '_', ' ']);
    if role.is_empty() { name } else { role }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_role_share_a_name() {
        for (name, shared) in [
            ("ingest-0", "ingest"),
            ("ingest-12", "ingest"),
            ("commit-live", "commit-live"),
            ("background", "background"),
            ("123", "123"),
        ] {
            assert_eq!(role(name), shared);
        }
    }

    #[test]
    fn the_time_on_a_cpu_is_the_first_field() {
        assert_eq!(seconds_of_schedstat("1500000000 7 3\n"), Some(1.5));
        for text in ["", "x 1 2"] {
            assert_eq!(seconds_of_schedstat(text), None, "{text:?}");
        }
    }

    #[test]
    fn cpu_time_is_summed_by_name() {
        let threads = |list: &[(u32, &str, f64)]| {
            let thread = |(id, name, cpu_seconds): &(u32, &str, f64)| {
                let name = (*name).to_owned();
                let cpu_seconds = *cpu_seconds;
                (*id, Thread { name, cpu_seconds })
            };
            Threads(list.iter().map(thread).collect())
        };
        let before = threads(&[(1, "ingest", 1.0), (2, "ingest", 2.0), (3, "gone", 9.0)]);
        let after = threads(&[(1, "ingest", 1.5), (2, "ingest", 2.25), (4, "new", 0.5)]);
        let used = after.since(&before);
        assert_eq!(
            used,
            BTreeMap::from([("ingest".to_owned(), 0.75), ("new".to_owned(), 0.5)])
        );
    }

    #[test]
    fn threads_are_listed_of_processes_that_exist() {
        let threads = Threads::of(std::process::id()).unwrap();
        assert!(!threads.0.is_empty());
        assert!(Threads::of(u32::MAX).is_err());
    }
}
