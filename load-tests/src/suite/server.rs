//! Servers as child processes.

use super::bench::Bench;
use super::listener::{Listener, on_cpus};
use crate::clickhouse::ClickHouse;
use crate::credentials::Credentials;
use crate::metrics;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Room for the log: never reached in a run.
const LOG_BYTES_MAX: &str = "64GiB";
/// Nobody listens there: shipping costs nothing.
const NOWHERE: &str = "http://127.0.0.1:9";
/// How often is looked whether all has been shipped.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long nothing may be shipped while something waits.
const SHIP_PATIENCE: Duration = Duration::from_secs(60);

/// Where a log lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// In memory: every instruction runs, fdatasync included, and no disk decides.
    Memory,
    /// On the real disk.
    Disk,
}

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contestant {
    /// The server under test.
    Ours {
        /// Its threads that take requests, each on a CPU of its own.
        workers: usize,
        /// Where its log is.
        store: Store,
    },
    /// Bare hyper that builds a simd-json tape of each body.
    Tape,
    /// Bare hyper that drops each body.
    Drain,
}

/// A running server; ended, and its data removed, when dropped.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub url: String,
    /// A project's key.
    pub key: String,
    /// Where its metrics are; a yardstick has none.
    health_url: String,
    listener: Listener,
}

/// What a server has beside its own folder.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside<'a> {
    /// Where it ships to; by default where the suite was told, else nowhere.
    pub clickhouse: Option<&'a ClickHouse>,
    /// The file of a catalog that is filled already.
    pub catalog: Option<&'a Path>,
    /// Room for the log, when it is to be less.
    pub log_bytes_max: Option<&'a str>,
}

impl Store {
    /// As figures call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
        }
    }

    /// As sentences do.
    #[must_use]
    pub const fn place(self) -> &'static str {
        match self {
            Self::Memory => "in memory",
            Self::Disk => "on disk",
        }
    }
}

impl Contestant {
    /// One worker, and a log that no disk decides about: what most cases measure.
    pub const OURS: Self = Self::Ours {
        workers: 1,
        store: Store::Memory,
    };

    /// As it is called in tables.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Ours { workers: 1, .. } => "Millrace".to_owned(),
            Self::Ours { workers, .. } => format!("Millrace, {workers} workers"),
            Self::Tape => "hyper + simd-json tape".to_owned(),
            Self::Drain => "bare hyper, drops the body".to_owned(),
        }
    }

    /// CPUs that it is given.
    #[must_use]
    pub fn cpus(self) -> usize {
        match self {
            Self::Ours { workers, .. } => workers,
            Self::Tape | Self::Drain => 1,
        }
    }
}

impl Server {
    /// Starts a server and waits until it listens.
    ///
    /// # Errors
    /// There is no such program, or it does not start.
    pub fn start(bench: &Bench<'_>, contestant: Contestant) -> Result<Self> {
        Self::start_beside(bench, contestant, Beside::default())
    }

    /// The same with more around it; a yardstick does not mind.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_beside(
        bench: &Bench<'_>,
        contestant: Contestant,
        beside: Beside<'_>,
    ) -> Result<Self> {
        let data = bench.folder(match contestant {
            Contestant::Ours { store, .. } => store,
            Contestant::Tape | Contestant::Drain => Store::Memory,
        })?;
        let cpus = bench.cpus.server(contestant.cpus());
        let command = match contestant {
            Contestant::Ours { workers, .. } => {
                let mut command = on_cpus(&cpus, &bench.options.server)?;
                ours(&mut command, workers, data.path());
                let clickhouse = beside.clickhouse.or(bench.options.clickhouse.as_ref());
                surroundings(&mut command, beside, clickhouse);
                command
            }
            Contestant::Tape => yardstick(bench, &cpus, &["--tape"])?,
            Contestant::Drain => yardstick(bench, &cpus, &[])?,
        };
        let listener = Listener::start(command, data)?;
        if let Contestant::Ours { .. } = contestant {
            let path = listener.folder().join("credentials.json");
            let credentials = Credentials::read(&path)?;
            return Ok(Self {
                url: credentials.ingest_url,
                key: credentials.project_api_key,
                health_url: credentials.health_url,
                listener,
            });
        }
        Ok(Self {
            url: listener.url().to_owned(),
            key: "any".to_owned(),
            health_url: String::new(),
            listener,
        })
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.listener.pid()
    }

    /// Waits until so many events are in ClickHouse.
    ///
    /// # Errors
    /// The run was interrupted, or for a minute nothing was shipped.
    pub fn wait_until_shipped(&self, bench: &Bench<'_>, events: u64) -> Result<()> {
        let (mut before, mut since) = (0.0, Instant::now());
        loop {
            bench.check()?;
            let shipped = self.metric("millrace_insert_rows_total")?;
            if shipped >= events as f64 {
                return Ok(());
            }
            if shipped > before {
                (before, since) = (shipped, Instant::now());
            }
            ensure!(
                since.elapsed() < SHIP_PATIENCE,
                "only {shipped} of {events} events were shipped"
            );
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Bytes that the process has had written to disk so far; nothing where the log is in memory.
    ///
    /// # Errors
    /// The process has ended.
    pub fn written_bytes(&self) -> Result<u64> {
        let path = format!("/proc/{}/io", self.pid());
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let bytes = text
            .lines()
            .find_map(|line| line.strip_prefix("write_bytes: "));
        bytes
            .and_then(|bytes| bytes.parse().ok())
            .with_context(|| format!("{path} has no write_bytes"))
    }

    /// A counter of the server's metrics, summed over its labels.
    ///
    /// # Errors
    /// The metrics cannot be read.
    pub fn metric(&self, name: &str) -> Result<f64> {
        Ok(metrics::sum(&metrics::read(&self.health_url)?, name, ""))
    }
}

fn ours(command: &mut Command, workers: usize, data: &Path) {
    command
        .args(["ingest", "--workers", &workers.to_string()])
        .arg("--data-dir")
        .arg(data)
        .args(["--ingest-addr", "127.0.0.1:0"])
        .args(["--health-addr", "127.0.0.1:0"])
        // All load comes from this address, which would have a share of the connections only.
        .args(["--trusted-proxies", "127.0.0.1"])
        .args(["--log-level", "error"]);
}

fn surroundings(command: &mut Command, beside: Beside<'_>, clickhouse: Option<&ClickHouse>) {
    let log_bytes_max = beside.log_bytes_max.unwrap_or(LOG_BYTES_MAX);
    command.args(["--log-bytes-max", log_bytes_max]);
    let url = clickhouse.map_or(NOWHERE, |clickhouse| &clickhouse.url);
    command.args(["--clickhouse-url", url]);
    if let Some(clickhouse) = clickhouse {
        command.args(["--clickhouse-user", &clickhouse.user]);
        // A command line can be read by everybody.
        command.env("MILLRACE_CLICKHOUSE_PASSWORD", &clickhouse.password);
    }
    if let Some(catalog) = beside.catalog {
        command.args(["--database-url", &sqlite_url(catalog)]);
    }
}

/// How the server's program is told of a catalog's file.
#[must_use]
pub fn sqlite_url(catalog: &Path) -> String {
    format!("sqlite://{}?mode=rwc", catalog.display())
}

fn yardstick(bench: &Bench<'_>, cpus: &str, kind: &[&str]) -> Result<Command> {
    let mut command = on_cpus(cpus, &bench.options.load)?;
    command
        .args(["drain-server", "--listen", "127.0.0.1:0"])
        .args(kind);
    Ok(command)
}
