//! Servers as child processes.

use super::bench::Bench;
use super::listener::{Listener, on_cpus};
use super::store::Store;
use crate::clickhouse::ClickHouse;
use crate::credentials::Credentials;
use crate::metrics;
use crate::plan::Plan;
use crate::runtime::current_thread_runtime;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Size limit of the log, never reached in a run.
const LOG_BYTES_MAX: &str = "64GiB";
/// URL at which nobody listens: shipping costs nothing.
const NOWHERE: &str = "http://127.0.0.1:9";
/// Statement that lets a server with a catalog of its own use an engine that others have filled.
pub const FORGET_CATALOGS: &str = "TRUNCATE TABLE IF EXISTS millrace.catalog_ids";
/// Interval at which the number of shipped rows is read.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Longest time without shipped rows while some wait.
const SHIP_TIMEOUT: Duration = Duration::from_secs(60);

/// Server that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contestant {
    /// The server under test.
    Ours {
        /// Number of worker threads, each on a CPU of its own.
        workers: usize,
        /// Storage of its log.
        store: Store,
    },
    /// Bare hyper that builds a simd-json tape of each body.
    Tape,
    /// Bare hyper that drops each body.
    Drain,
}

/// A running server; ended on drop, with its data removed.
#[derive(Debug)]
pub struct Server {
    /// URL that it listens on.
    pub url: String,
    /// Key of a project.
    pub key: String,
    /// URL of its metrics; empty for a baseline.
    health_url: String,
    listener: Listener,
}

/// Options of a server besides its own folder.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerOptions<'a> {
    /// ClickHouse to ship to; by default the suite's, else none.
    pub clickhouse: Option<&'a ClickHouse>,
    /// File of an existing catalog.
    pub catalog: Option<&'a Path>,
    /// Size limit of the log, if it is to be lower.
    pub log_bytes_max: Option<&'a str>,
}

impl Contestant {
    /// One worker with a log in memory: the default of most cases.
    pub const OURS: Self = Self::Ours {
        workers: 1,
        store: Store::Memory,
    };

    /// Name in tables.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Ours { workers: 1, .. } => "Millrace".to_owned(),
            Self::Ours { workers, .. } => format!("Millrace, {workers} workers"),
            Self::Tape => "hyper + simd-json tape".to_owned(),
            Self::Drain => "bare hyper, drops the body".to_owned(),
        }
    }

    /// Number of CPUs that the contestant gets.
    #[must_use]
    pub fn cpus(self) -> usize {
        match self {
            Self::Ours { workers, .. } => workers,
            Self::Tape | Self::Drain => 1,
        }
    }
}

impl Bench<'_> {
    /// Plan against a server, with the bench's times and one generator thread per CPU.
    #[must_use]
    pub fn plan(&self, server: &Server, server_cpus: usize) -> Plan {
        let mut plan = Plan::new(&server.url, &server.key);
        plan.warm_up = self.effort.warm_up;
        plan.duration = self.effort.window;
        plan.pin = self.cpus.generator(server_cpus);
        plan.threads = plan.pin.len();
        plan.server_pid = Some(server.pid());
        plan
    }
}

impl Server {
    /// Starts a server and waits until it listens.
    ///
    /// # Errors
    /// There is no such program, or it does not start.
    pub fn start(bench: &Bench<'_>, contestant: Contestant) -> Result<Self> {
        Self::start_with(bench, contestant, ServerOptions::default())
    }

    /// Starts a server with further options, which a baseline ignores.
    ///
    /// # Errors
    /// See [`Self::start`].
    pub fn start_with(
        bench: &Bench<'_>,
        contestant: Contestant,
        options: ServerOptions<'_>,
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
                let clickhouse = options.clickhouse.or(bench.options.clickhouse.as_ref());
                if let (Some(clickhouse), None) = (clickhouse, options.catalog) {
                    let forgotten = clickhouse.execute(FORGET_CATALOGS);
                    // A new engine has no such table.
                    let _ = current_thread_runtime()?.block_on(forgotten);
                }
                add_options(&mut command, options, clickhouse);
                command
            }
            Contestant::Tape => baseline(bench, &cpus, &["--tape"])?,
            Contestant::Drain => baseline(bench, &cpus, &[])?,
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

    /// Process id of the server.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.listener.pid()
    }

    /// Waits until ClickHouse has this number of events.
    ///
    /// # Errors
    /// The run was interrupted, or nothing was shipped for a minute.
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
                since.elapsed() < SHIP_TIMEOUT,
                "only {shipped} of {events} events were shipped"
            );
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Bytes that the process has written to disk so far; 0 if the log is in memory.
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

    /// A metric of the server, summed over its labels.
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
        // All load comes from this address, which would otherwise get only a share of the
        // connections.
        .args(["--trusted-proxies", "127.0.0.1"])
        .args(["--log-level", "error"]);
}

fn add_options(command: &mut Command, options: ServerOptions<'_>, clickhouse: Option<&ClickHouse>) {
    let log_bytes_max = options.log_bytes_max.unwrap_or(LOG_BYTES_MAX);
    command.args(["--log-bytes-max", log_bytes_max]);
    let url = clickhouse.map_or(NOWHERE, |clickhouse| &clickhouse.url);
    command.args(["--clickhouse-url", url]);
    if let Some(clickhouse) = clickhouse {
        command.args(["--clickhouse-user", &clickhouse.user]);
        // Command lines are public on a machine, so the password goes into the environment.
        command.env("MILLRACE_CLICKHOUSE_PASSWORD", &clickhouse.password);
    }
    if let Some(catalog) = options.catalog {
        command.args(["--database-url", &sqlite_url(catalog)]);
    }
}

/// Database URL of a catalog's file.
#[must_use]
pub fn sqlite_url(catalog: &Path) -> String {
    format!("sqlite://{}?mode=rwc", catalog.display())
}

fn baseline(bench: &Bench<'_>, cpus: &str, kind: &[&str]) -> Result<Command> {
    let mut command = on_cpus(cpus, &bench.options.load)?;
    command
        .args(["drain-server", "--listen", "127.0.0.1:0"])
        .args(kind);
    Ok(command)
}
