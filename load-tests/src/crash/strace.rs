//! Kills a process at a system call: just before a part that was inserted gets its name.
//!
//! The engine notes an insert's token, then renames the part into place. Killed in between, it
//! takes the retry for a duplicate and the rows are gone; a random kill meets that moment about never.

use anyhow::{Context, Result};
use rustix::process::Pid;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The calls that rename. Those that a processor does not have are passed over.
const RENAMES: &str = "?rename,?renameat,?renameat2";
/// How the engine calls an inserted part before it has its name.
const INSERTED_PART: &str = "tmp_insert_";

/// A running `strace`.
#[derive(Debug)]
pub struct Strace {
    process: std::process::Child,
    trace: PathBuf,
}

impl Strace {
    /// Attaches to a process, which is then killed when any of its threads renames for the `nth`
    /// time. `Err` in `Ok`: why we may not.
    ///
    /// # Errors
    /// There is no `strace`.
    pub fn attach(pid: Pid, nth: u64, dir: &Path) -> Result<Result<Self, String>> {
        let inject = format!("{RENAMES}:signal=SIGKILL:when={nth}");
        Self::inject(pid, RENAMES, &inject, &["-f"], &dir.join("strace"))
    }

    /// Attaches to a process or thread, writes down certain calls, with their times, and interferes with
    /// some, in the words of `strace -e inject=`. `Err` in `Ok`: why we may not.
    ///
    /// # Errors
    /// There is no `strace`.
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

    /// Whether it has ended, as it does with the process that it is attached to.
    ///
    /// # Errors
    /// The system does not say.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.process.try_wait().context("wait")?.is_some())
    }

    /// After the process has ended: what was written down.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn trace(mut self) -> Result<String> {
        self.process.wait().context("wait")?;
        std::fs::read_to_string(&self.trace).context("strace's output")
    }

    /// After the process was killed: whether that was before an inserted part got its name.
    ///
    /// # Errors
    /// What `strace` wrote cannot be read.
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

/// A call that was cut off has no result but a question mark, or none at all: one that another
/// thread interrupted is continued in a later line of its own thread.
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
    fn only_a_rename_of_an_inserted_part_that_was_cut_off_counts() {
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
