//! Kills a process at a system call: just before an inserted part is renamed into place.
//!
//! The engine notes an insert's token, then renames the part into place. If it is killed in
//! between, it takes the retry for a duplicate and the rows are lost. A random kill hardly ever
//! meets that moment.

use anyhow::{Context, Result};
use rustix::process::Pid;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// System calls that rename; `?` skips those that the processor does not have.
const RENAMES: &str = "?rename,?renameat,?renameat2";
/// Prefix of an inserted part's name before the rename.
const INSERTED_PART: &str = "tmp_insert_";

/// A running `strace`.
#[derive(Debug)]
pub struct Strace {
    process: std::process::Child,
    trace: PathBuf,
}

impl Strace {
    /// Attaches to a process and kills it when any of its threads renames for the `nth` time. `Err`
    /// in `Ok` is the reason why attaching is not allowed.
    ///
    /// # Errors
    /// `strace` is not installed.
    pub fn attach(pid: Pid, nth: u64, dir: &Path) -> Result<Result<Self, String>> {
        let inject = format!("{RENAMES}:signal=SIGKILL:when={nth}");
        Self::inject(pid, RENAMES, &inject, &["-f"], &dir.join("strace"))
    }

    /// Attaches to a process or thread, traces `calls` with their times and tampers with some of
    /// them, in the syntax of `strace -e inject=`. `Err` in `Ok` is the reason why attaching is not
    /// allowed.
    ///
    /// # Errors
    /// `strace` is not installed.
    pub fn inject(
        pid: Pid,
        calls: &str,
        injection: &str,
        options: &[&str],
        trace: &Path,
    ) -> Result<Result<Self, String>> {
        let mut process = Command::new("strace")
            .args(options)
            .args(["-ttt", "-o"])
            .arg(trace)
            .args(["-e", &format!("trace={calls}")])
            .args(["-e", &format!("inject={injection}")])
            .args(["-p", &pid.as_raw_nonzero().to_string()])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot run strace; deploy/test-setup.sh installs it")?;
        let mut said = BufReader::new(process.stderr.take().context("stderr")?);
        let mut line = String::new();
        let mut text = String::new();
        while said.read_line(&mut line).context("strace")? > 0 {
            if line.contains(" attached") {
                std::thread::Builder::new()
                    .name("strace".to_owned())
                    .spawn(move || std::io::copy(&mut said, &mut std::io::sink()))
                    .context("cannot start a thread")?;
                let trace = trace.to_owned();
                return Ok(Ok(Self { process, trace }));
            }
            text.push_str(&line);
            line.clear();
        }
        process.wait().context("wait")?;
        Ok(Err(text.trim().to_owned()))
    }

    /// Returns true if `strace` has ended, as it does with its process.
    ///
    /// # Errors
    /// The system cannot tell.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.process.try_wait().context("wait")?.is_some())
    }

    /// Waits for the process to end and returns the trace.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub fn trace(mut self) -> Result<String> {
        self.process.wait().context("wait")?;
        std::fs::read_to_string(&self.trace).context("strace's output")
    }

    /// Returns true if the process was killed before an inserted part was renamed. To be called
    /// after the kill.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub fn met_inserted_part(self) -> Result<bool> {
        Ok(is_met(&self.trace()?))
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns true if a rename was cut off. Such a call has no result but a question mark, or none at
/// all; a call interrupted by another thread continues in a later line of its own thread.
fn is_met(trace: &str) -> bool {
    let is_cut_off = |line: &str| line.trim_end().ends_with("= ?");
    let mut lines = trace.lines();
    while let Some(line) = lines.next() {
        if !line.contains(INSERTED_PART) {
            continue;
        }
        if is_cut_off(line) {
            return true;
        }
        if line.contains("<unfinished") {
            let thread = line.split_ascii_whitespace().next();
            let of_thread = |it: &&str| it.split_ascii_whitespace().next() == thread;
            let mut rest = lines.clone().filter(of_thread);
            if rest
                .find(|it| it.contains(" resumed>"))
                .is_none_or(is_cut_off)
            {
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_cut_off_rename_of_an_inserted_part_counts() {
        let done = "7 rename(\"s/tmp_insert_202611_1_1_0/\", \"s/202611_1_1_0/\") = 0\n";
        let cut = "7 rename(\"s/tmp_insert_202611_2_2_0/\", \"s/202611_2_2_0/\") = ?\n";
        let other = "7 renameat2(AT_FDCWD, \"a.tmp\", AT_FDCWD, \"a\", 0) = ?\n";
        for (trace, met) in [(done, false), (cut, true), (other, false)] {
            assert_eq!(is_met(trace), met, "{trace}");
        }
        assert!(is_met(&[done, cut].concat()));
        let begun = "7 1.1 rename(\"s/tmp_insert_202611_1_1_0/\",  <unfinished ...>\n";
        let of_another = "8 1.2 <... rename resumed>) = 0\n";
        for (end, met) in [
            ("", true),
            ("7 1.3 <... rename resumed>) = ?\n", true),
            ("7 1.3 <... rename resumed>) = 0\n", false),
        ] {
            let trace = [begun, of_another, end].concat();
            assert_eq!(is_met(&trace), met, "{trace}");
        }
    }
}
