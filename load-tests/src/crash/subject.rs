//! Processes under test.

use super::kill::Victim;
use super::options::Layout;
use super::options::Options;
use crate::child::{Child, Start, children_of, isolate};
use crate::clickhouse::ClickHouse;
use crate::credentials::Credentials;
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Longest wait for an engine to come back. Its supervisor waits up to ten seconds between starts.
const ENGINE_WAIT: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Number of worker threads: several, so that commit groups have several requests.
const WORKERS: &str = "2";
const FAIL_POINT_VARIABLE: &str = "MILLRACE_FAIL_POINT";

/// Processes of a folder, running or not.
pub struct Subject<'a> {
    options: &'a Options,
    layout: Layout,
    dir: PathBuf,
    /// Process of `serve` or `ingest`.
    ingest: Option<Child>,
    /// Process of the engine, unless it is a child of the former.
    engine: Option<Child>,
    /// Address on which the engine listened first; it keeps that address.
    engine_address: Option<String>,
    /// Duration of each start, with the command started.
    pub starts: Vec<(Started, Duration)>,
}

/// Command that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Started {
    /// `millrace serve`, until the engine responds, too.
    Serve,
    /// `millrace ingest`.
    Ingest,
    /// `millrace clickhouse`.
    Engine,
}

/// Outcome of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartOutcome {
    /// All processes run.
    Running,
    /// The server killed itself during startup, as it was told to.
    Killed,
}

impl fmt::Display for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Serve => "serve, engine included",
            Self::Ingest => "ingest",
            Self::Engine => "engine",
        })
    }
}

impl<'a> Subject<'a> {
    /// Processes on a folder, none of them running.
    #[must_use]
    pub fn new(options: &'a Options, layout: Layout, dir: &Path) -> Self {
        Self {
            options,
            layout,
            dir: dir.to_owned(),
            ingest: None,
            engine: None,
            engine_address: None,
            starts: Vec::new(),
        }
    }

    /// Starts the processes that do not run. With a fail point the server is always restarted.
    ///
    /// # Errors
    /// A process does not start, or ended by itself.
    pub fn up(&mut self, fail_point: Option<&str>) -> Result<StartOutcome> {
        if self.layout == Layout::Apart && self.engine.is_none() {
            self.start_engine()?;
        }
        if fail_point.is_some() {
            self.ingest = None;
        }
        if let Some(running) = &mut self.ingest {
            let has_ended = running.has_ended()?;
            ensure!(
                !has_ended,
                "the server ended by itself:\n{}",
                last_lines(&self.stderr())
            );
            return Ok(StartOutcome::Running);
        }
        let mut command = self.command(self.mode())?;
        for listener in ["--ingest-addr", "--admin-addr", "--health-addr"] {
            command.args([listener, "127.0.0.1:0"]);
        }
        command.args(["--workers", WORKERS]);
        if let Some(fail_point) = fail_point {
            command.env(FAIL_POINT_VARIABLE, fail_point);
        }
        let said_before = self.stderr_text()?.len();
        match Child::start(command, &self.stderr(), "Press Ctrl-C")? {
            Start::Up { child, took, .. } => {
                self.ingest = Some(child);
                self.starts.push((self.started(), took));
                Ok(StartOutcome::Running)
            }
            Start::Ended(_) if self.is_at_fail_point(said_before)? => Ok(StartOutcome::Killed),
            Start::Ended(status) => bail!(
                "the server did not start ({status}):\n{}",
                last_lines(&self.stderr())
            ),
        }
    }

    /// Kills a victim; other processes run on. Returns true if all victims were running.
    pub fn kill(&mut self, victim: Victim) -> bool {
        let engine = self.engine_pid();
        let mut is_hit = true;
        if victim != Victim::Ingest {
            is_hit &= engine.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok());
        }
        match (&mut self.ingest, victim) {
            (Some(ingest), Victim::Ingest) => is_hit &= ingest.kill(),
            (Some(ingest), Victim::Both) => is_hit &= ingest.kill_all(),
            (None, Victim::Ingest | Victim::Both) => is_hit = false,
            (_, Victim::Engine) => {}
        }
        is_hit
    }

    /// Stops the processes that are to lose power. A real cut stops everything at once, so nobody
    /// may respond after it.
    ///
    /// # Errors
    /// The processes do not stop in time.
    pub fn freeze(&self, victim: Victim) -> Result<()> {
        let ingest = self.ingest.as_ref().filter(|_| victim != Victim::Engine);
        let engine = self.engine.as_ref().filter(|_| victim != Victim::Ingest);
        ingest
            .into_iter()
            .chain(engine)
            .try_for_each(Child::freeze_all)
    }

    /// Reaps killed processes.
    ///
    /// # Errors
    /// One of them ended by itself.
    pub fn reap(&mut self, victim: Victim) -> Result<()> {
        let ends = [
            (&mut self.ingest, victim != Victim::Engine),
            (&mut self.engine, victim != Victim::Ingest),
        ];
        for (child, ended) in ends {
            if let Some(mut child) = child.take_if(|_| ended) {
                let status = child.wait()?;
                ensure!(
                    status.signal() == Some(Signal::KILL.as_raw()),
                    "a process ended by itself ({status}):\n{}",
                    last_lines(&self.dir.join("stderr"))
                );
            }
        }
        Ok(())
    }

    /// Returns true if the server has ended, or never ran.
    ///
    /// # Errors
    /// The system cannot tell.
    pub fn ingest_has_ended(&mut self) -> Result<bool> {
        self.ingest.as_mut().map_or(Ok(true), Child::has_ended)
    }

    /// Process of the engine, if it runs.
    #[must_use]
    pub fn engine_pid(&self) -> Option<Pid> {
        match self.layout {
            Layout::Serve => children_of(self.ingest.as_ref()?.pid()).into_iter().next(),
            Layout::Apart => self.engine.as_ref().map(Child::pid),
        }
    }

    /// Addresses and keys of the server.
    ///
    /// # Errors
    /// The server has never run.
    pub fn credentials(&self) -> Result<Credentials> {
        Credentials::read(&self.ingest_dir().join("credentials.json"))
    }

    /// Waits until the engine responds.
    ///
    /// # Errors
    /// The engine does not respond within half a minute.
    pub async fn engine_answers(&self) -> Result<ClickHouse> {
        let clickhouse = ClickHouse::of(&self.credentials()?);
        let deadline = Instant::now() + ENGINE_WAIT;
        loop {
            let exists = clickhouse.number("EXISTS millrace.rejected_events").await;
            match exists {
                Ok(1) => return Ok(clickhouse),
                _ if Instant::now() < deadline => tokio::time::sleep(LOOK_AGAIN).await,
                other => bail!("the engine has no tables: {other:?}"),
            }
        }
    }

    /// Runs an operator command of the server.
    ///
    /// # Errors
    /// The command fails.
    pub fn operate(&self, words: &[&str]) -> Result<Output> {
        let mut command = self.command(words)?;
        let output = command
            .output()
            .context("cannot run the server's program")?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{words:?} failed: {error}");
        Ok(output)
    }

    /// Folder of the server's log and catalog.
    #[must_use]
    pub fn ingest_dir(&self) -> PathBuf {
        self.dir.join("ingest")
    }

    fn stderr(&self) -> PathBuf {
        self.dir.join("stderr")
    }

    const fn mode(&self) -> &'static [&'static str] {
        match self.layout {
            Layout::Serve => &["serve", "--clickhouse-addr", "127.0.0.1:0"],
            Layout::Apart => &["ingest"],
        }
    }

    const fn started(&self) -> Started {
        match self.layout {
            Layout::Serve => Started::Serve,
            Layout::Apart => Started::Ingest,
        }
    }

    /// Standard error of all processes.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn stderr_text(&self) -> Result<String> {
        match std::fs::read(self.stderr()) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(error).context("stderr"),
        }
    }

    /// Returns true if a process reached its fail point, by its message after `said_before` bytes
    /// of standard error.
    ///
    /// # Errors
    /// See [`Self::stderr_text`].
    pub fn is_at_fail_point(&self, said_before: usize) -> Result<bool> {
        let said = self.stderr_text()?;
        let new = said.get(said_before..).unwrap_or_default();
        Ok(new.lines().any(|line| line.starts_with("fail point ")))
    }

    /// The server's program, without settings of the environment.
    fn program(&self) -> Result<Command> {
        let program = std::path::absolute(&self.options.server).context("the program's path")?;
        let mut command = Command::new(program);
        isolate(&mut command, &self.dir);
        Ok(command)
    }

    /// A command of the server's program, with the folder and the engine.
    fn command(&self, words: &[&str]) -> Result<Command> {
        let mut command = self.program()?;
        command.args(words).arg("--data-dir").arg(self.ingest_dir());
        if self.layout == Layout::Apart {
            let engine = Credentials::read(&self.engine_dir().join("credentials.json"))?;
            command
                .args(["--clickhouse-url", &engine.clickhouse_url])
                .args(["--clickhouse-user", &engine.clickhouse_user])
                .env("MILLRACE_CLICKHOUSE_PASSWORD", &engine.clickhouse_password);
        }
        Ok(command)
    }

    fn engine_dir(&self) -> PathBuf {
        self.dir.join("engine")
    }

    /// Starts the engine on the address that it had before.
    fn start_engine(&mut self) -> Result<()> {
        let deadline = Instant::now() + ENGINE_WAIT;
        loop {
            let address = self.engine_address.as_deref().unwrap_or("127.0.0.1:0");
            let mut command = self.program()?;
            command
                .args(["clickhouse", "--clickhouse-addr", address])
                .arg("--data-dir")
                .arg(self.engine_dir());
            match Child::start(command, &self.stderr(), "ClickHouse answers at ")? {
                Start::Up { child, line, took } => {
                    let url = line.split_once("http://").map(|(_, rest)| rest);
                    let address = url.and_then(|rest| rest.split_once(','));
                    let (address, _) = address.with_context(|| line.clone())?;
                    self.engine_address = Some(address.to_owned());
                    self.engine = Some(child);
                    self.starts.push((Started::Engine, took));
                    return Ok(());
                }
                // Another process may have its port for a moment.
                Start::Ended(_) if Instant::now() < deadline => {}
                Start::Ended(status) => bail!(
                    "the engine did not start ({status}):\n{}",
                    last_lines(&self.stderr())
                ),
            }
        }
    }
}

/// Last lines of a file, which explain a failed start.
fn last_lines(path: &Path) -> String {
    const LINES: usize = 20;
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(LINES);
    lines.get(from..).unwrap_or_default().join("\n")
}
