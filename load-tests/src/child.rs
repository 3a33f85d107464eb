//! A process under test: started, watched, killed.

use crate::process::wait_for_line;
use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child as Process, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Longest time until a process is up, with a long recovery.
const UP_MAX: Duration = Duration::from_secs(120);
/// Prefixes of variables that a program under test keeps, such as the path of its engine.
const KEPT_VARIABLES: [&str; 2] = ["MILLRACE_LIBCHDB", "MILLRACE_TEST_"];
/// Longest time until a process is stopped; the pause between looks is below.
const FREEZE_MAX: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A running process with its children; all are killed on drop.
#[derive(Debug)]
pub struct Child {
    process: Process,
}

/// Result of a start.
#[derive(Debug)]
pub enum Start {
    /// The process is up.
    Up {
        /// The running process.
        child: Child,
        /// Line that said that the process is up.
        line: String,
        /// Time from the start to that line.
        took: Duration,
    },
    /// The process ended before it was up.
    Ended(ExitStatus),
}

/// Removes all settings from a command's environment but those set on the command itself.
///
/// Neither variables of this process apply, nor a configuration file in the working directory: the
/// command runs in `dir`.
pub fn isolate(command: &mut Command, dir: &Path) {
    let own: Vec<OsString> = command
        .get_envs()
        .map(|(name, _)| name.to_owned())
        .collect();
    for (name, _) in std::env::vars_os() {
        if is_setting(&name.to_string_lossy()) && !own.contains(&name) {
            command.env_remove(&name);
        }
    }
    command.current_dir(dir);
}

fn is_setting(name: &str) -> bool {
    let is_kept = KEPT_VARIABLES.iter().any(|kept| name.starts_with(kept));
    name.starts_with("MILLRACE_") && !is_kept
}

impl Child {
    /// Starts a program and waits until it prints a line with `ready` in it. Its standard error is
    /// appended to a file.
    ///
    /// # Errors
    /// The program cannot be started, or prints no such line within two minutes.
    pub fn start(mut command: Command, stderr: &Path, ready: &str) -> Result<Start> {
        let errors = OpenOptions::new().create(true).append(true).open(stderr);
        let started = Instant::now();
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors.with_context(|| format!("cannot write {}", stderr.display()))?)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot run {}", command.get_program().display()))?;
        let output = process.stdout.take().context("stdout")?;
        let mut child = Self { process };
        match wait_for_line(output, ready, UP_MAX)? {
            Some(line) => Ok(Start::Up {
                child,
                line,
                took: started.elapsed(),
            }),
            None => Ok(Start::Ended(child.wait()?)),
        }
    }

    /// Process id.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Returns true if the process has ended.
    ///
    /// # Errors
    /// The system cannot tell.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.process.try_wait().context("wait")?.is_some())
    }

    /// Kills the process alone; returns true if it was running.
    #[must_use]
    pub fn kill(&mut self) -> bool {
        matches!(self.has_ended(), Ok(false)) && kill_process(self.pid(), Signal::KILL).is_ok()
    }

    /// Kills the process with all its children; returns true if it was running.
    pub fn kill_all(&mut self) -> bool {
        let was_there = matches!(self.has_ended(), Ok(false));
        kill_process_group(self.pid(), Signal::KILL).is_ok() && was_there
    }

    /// Stops the process with all its children by SIGSTOP; a system call in progress may still
    /// finish.
    ///
    /// # Errors
    /// The processes do not stop in time.
    pub fn freeze_all(&self) -> Result<()> {
        // This fails only if the process has ended.
        let _ = kill_process_group(self.pid(), Signal::STOP);
        let deadline = Instant::now() + FREEZE_MAX;
        for pid in [vec![self.pid()], children_of(self.pid())].concat() {
            while !is_frozen(pid) {
                ensure!(Instant::now() < deadline, "{pid:?} does not stop");
                std::thread::sleep(LOOK_AGAIN);
            }
        }
        Ok(())
    }

    /// Waits for the end of the process.
    ///
    /// # Errors
    /// The system cannot tell.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        self.process.wait().context("wait")
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill_all();
        let _ = self.process.wait();
    }
}

/// Returns true if no thread of a process can do anything but finish a disk operation.
fn is_frozen(pid: Pid) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    let stats = tasks.into_iter().flatten().flatten().filter_map(|task| {
        // A thread may end in the meantime.
        std::fs::read_to_string(task.path().join("stat")).ok()
    });
    let state = |stat: String| stat.rsplit_once(") ")?.1.chars().next();
    stats.filter_map(state).all(|state| "TDZX".contains(state))
}

/// Children of a process.
#[must_use]
pub fn children_of(pid: Pid) -> Vec<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    let listed = tasks.into_iter().flatten().flatten().filter_map(|task| {
        // A thread may end in the meantime.
        std::fs::read_to_string(task.path().join("children")).ok()
    });
    let mut children = Vec::new();
    for text in listed {
        let pids = text.split_ascii_whitespace();
        children.extend(pids.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)));
    }
    children
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_inherits_the_path_of_its_engine_but_no_settings() {
        for (name, expected) in [
            ("MILLRACE_DATA_DIR", true),
            ("MILLRACE_CLICKHOUSE_PASSWORD", true),
            ("MILLRACE_LIBCHDB", false),
            ("MILLRACE_TEST_POSTGRES", false),
            ("PATH", false),
        ] {
            assert_eq!(is_setting(name), expected, "{name}");
        }
    }

    #[test]
    fn a_child_has_its_own_variables_and_its_own_folder() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.env("MILLRACE_CLICKHOUSE_PASSWORD", "secret");
        command.args([
            "-c",
            "echo up $MILLRACE_CLICKHOUSE_PASSWORD $PWD; exec sleep 600",
        ]);
        isolate(&mut command, dir.path());
        let started = Child::start(command, &dir.path().join("stderr"), "up").unwrap();
        let Start::Up { line, .. } = started else {
            panic!("{started:?}");
        };
        assert_eq!(
            line.trim_end(),
            format!("up secret {}", dir.path().display())
        );
    }
}
