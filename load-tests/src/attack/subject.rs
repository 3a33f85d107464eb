//! Server under attack: one process with its engine, as `make run` starts it.

use super::mail_sink::MailSink;
use super::options::Options;
use crate::child::{Child, Start, children_of, isolate};
use crate::clickhouse::ClickHouse;
use crate::credentials::Credentials;
use crate::runtime::current_thread_runtime;
use anyhow::{Context, Result, bail, ensure};
use rustix::process::Pid;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest time until the engine has created its tables.
const TABLES_MAX: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Request limit of an API key, above what an attack sends.
const REQUESTS_MAX: &str = "1000000";
/// Sender of mails, and the address that links in them lead to.
const MAIL_FROM: &str = "Millrace <millrace@example.com>";
const PUBLIC_URL: &str = "https://millrace.example";
/// Setting `clickhouse_memory`, its default: memory of all statements of the engine together.
const ENGINE_MEMORY: &str = "2GiB";
/// Bytes of [`ENGINE_MEMORY`].
pub(super) const ENGINE_MEMORY_BYTES: u64 = 2 << 30;
/// Bytes of a KiB, the unit of `/proc`.
pub(super) const KIB: u64 = 1 << 10;

/// A running server, killed when dropped.
pub(super) struct Subject {
    server: PathBuf,
    dir: PathBuf,
    child: Mutex<Child>,
    pid: Pid,
    /// Process of the engine when startup was complete.
    pub(super) engine_pid: Pid,
    /// Addresses and keys of the server.
    pub(super) credentials: Credentials,
}

impl Subject {
    /// Starts the server on an empty folder, with a server for its mails, and waits until its
    /// tables exist.
    pub(super) fn start(options: &Options, dir: &Path, mails: &MailSink) -> Result<Self> {
        let server = std::path::absolute(&options.server).context("the program's path")?;
        let mut command = Command::new(&server);
        isolate(&mut command, dir);
        command.args(["serve", "--data-dir"]).arg(dir.join("data"));
        for listener in ["ingest", "admin", "health", "clickhouse"] {
            command.args([&format!("--{listener}-addr"), "127.0.0.1:0"]);
        }
        // The attack measures the cost of requests, not the throttle that would refuse most of
        // them.
        for window in ["minute", "hour"] {
            command.args([&format!("--admin-requests-per-{window}-max"), REQUESTS_MAX]);
        }
        command.args(["--clickhouse-memory", ENGINE_MEMORY]);
        command.args(["--smtp-url", &mails.url(), "--mail-from", MAIL_FROM]);
        command.args(["--admin-public-url", PUBLIC_URL]);
        // The servers that hang run on this machine, too.
        command.arg("--allow-private-destinations");
        command.arg("--export-root").arg(dir.join("exports"));
        std::fs::create_dir(dir.join("exports")).context("the folder for exports")?;
        let stderr = dir.join("stderr");
        let (child, pid) = match Child::start(command, &stderr, "Press Ctrl-C")? {
            Start::Up { child, .. } => {
                let pid = child.pid();
                (child, pid)
            }
            Start::Ended(status) => {
                let said = std::fs::read_to_string(&stderr).unwrap_or_default();
                bail!("the server did not start ({status}):\n{said}")
            }
        };
        let credentials = Credentials::read(&dir.join("data/credentials.json"))?;
        let mut subject = Self {
            server,
            dir: dir.to_owned(),
            child: Mutex::new(child),
            pid,
            engine_pid: pid,
            credentials,
        };
        subject.wait_for_tables()?;
        subject.engine_pid = subject.engine().context("the engine does not run")?;
        Ok(subject)
    }

    fn wait_for_tables(&self) -> Result<()> {
        let clickhouse = self.clickhouse();
        let runtime = current_thread_runtime()?;
        let deadline = Instant::now() + TABLES_MAX;
        loop {
            let there =
                runtime.block_on(clickhouse.number("EXISTS millrace.rejected_events_resent"));
            match there {
                Ok(1) => return Ok(()),
                _ if Instant::now() < deadline => std::thread::sleep(LOOK_AGAIN),
                other => bail!("the engine has no tables: {other:?}"),
            }
        }
    }

    /// Client of the engine, with the analysts' password.
    pub(super) fn clickhouse(&self) -> ClickHouse {
        ClickHouse::of(&self.credentials)
    }

    /// Process id of the server.
    pub(super) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Returns true if the server has ended.
    pub(super) fn has_ended(&self) -> Result<bool> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child.has_ended()
    }

    /// Current process of the engine.
    pub(super) fn engine(&self) -> Option<Pid> {
        // Processes that parse plugin sources are children, too, and start later.
        let children = children_of(self.pid);
        let known = children.iter().find(|pid| **pid == self.engine_pid);
        known.or(children.first()).copied()
    }

    /// Memory of the server in bytes: `VmRSS` is the current value, `VmHWM` the highest so far.
    pub(super) fn memory_bytes(&self, line: &str) -> Result<u64> {
        memory_bytes(self.pid, line)
    }

    /// Memory of the engine's process in bytes, by the same lines.
    pub(super) fn engine_memory_bytes(&self, line: &str) -> Result<u64> {
        memory_bytes(self.engine().unwrap_or(self.engine_pid), line)
    }

    /// Standard error of the server.
    pub(super) fn stderr_text(&self) -> String {
        let bytes = std::fs::read(self.dir.join("stderr")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Root folder of exports to files.
    pub(super) fn export_root(&self) -> PathBuf {
        self.dir.join("exports")
    }

    /// Folder of the server's data and secrets.
    pub(super) fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Runs an operator command of the server.
    pub(super) fn operate(&self, words: &[&str]) -> Result<Output> {
        let mut command = Command::new(&self.server);
        isolate(&mut command, &self.dir);
        command.args(words).arg("--data-dir").arg(self.data_dir());
        command.output().context("cannot run the server's program")
    }

    /// Output of an operator command that must succeed.
    pub(super) fn output_of(&self, words: &[&str]) -> Result<String> {
        let output = self.operate(words)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{words:?} failed: {said}");
        String::from_utf8(output.stdout).context("a command's output")
    }
}

/// A memory figure of a process in bytes, by its name in `/proc/<pid>/status`.
fn memory_bytes(pid: Pid, line: &str) -> Result<u64> {
    let path = format!("/proc/{}/status", pid.as_raw_nonzero());
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let found = text.lines().find_map(|it| it.strip_prefix(line));
    let kib = found.map(|it| it.trim_matches([':', '\t', ' ', 'k', 'B']).parse::<u64>());
    let kib = kib.with_context(|| format!("{path} has no {line}"))?;
    Ok(kib.context("memory")? * KIB)
}
