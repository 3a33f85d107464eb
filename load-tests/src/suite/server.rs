//! Servers as child processes.

use super::bench::Bench;
use super::child::{Child, on_cpus};
use crate::clickhouse::ClickHouse;
use crate::credentials::Credentials;
use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Room for the log: a quarter of it is never reached in a run, past which rows are compressed
/// whatever the disk.
const LOG_BYTES_MAX: &str = "64GiB";
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(5);
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
    child: Child,
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
                let mut command = on_cpus(&cpus, &bench.options.server);
                ours(&mut command, workers, data.path());
                let clickhouse = beside.clickhouse.or(bench.options.clickhouse.as_ref());
                surroundings(&mut command, beside, clickhouse);
                command
            }
            Contestant::Tape => yardstick(bench, &cpus, &["--tape"]),
            Contestant::Drain => yardstick(bench, &cpus, &[]),
        };
        let child = Child::start(command, data)?;
        let (mut url, mut key) = (child.url().to_owned(), "any".to_owned());
        if let Contestant::Ours { .. } = contestant {
            let credentials = Credentials::read(&child.folder().join("credentials.json"))?;
            (url, key) = (credentials.ingest_url, credentials.project_api_key);
        }
        Ok(Self { url, key, child })
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.pid()
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
        let path = self.child.folder().join("credentials.json");
        let text = std::fs::read(&path).context("credentials")?;
        let json: serde_json::Value = serde_json::from_slice(&text).context("credentials")?;
        let url = json.get("health_url").and_then(serde_json::Value::as_str);
        let address = url
            .and_then(|url| url.strip_prefix("http://"))
            .context("no health_url")?;
        Ok(sum_of(&get(address, "/metrics")?, name))
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

fn yardstick(bench: &Bench<'_>, cpus: &str, kind: &[&str]) -> Command {
    let mut command = on_cpus(cpus, &bench.options.load);
    command
        .args(["drain-server", "--listen", "127.0.0.1:0"])
        .args(kind);
    command
}

fn get(address: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).context("cannot connect to the health server")?;
    stream
        .set_read_timeout(Some(SCRAPE_TIMEOUT))
        .context("timeout")?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .context("request")?;
    let mut text = String::new();
    stream.read_to_string(&mut text).context("answer")?;
    Ok(text)
}

fn sum_of(metrics: &str, name: &str) -> f64 {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        if !rest.starts_with(['{', ' ']) {
            return None;
        }
        rest.rsplit_once(' ')?.1.parse::<f64>().ok()
    };
    metrics.lines().filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_the_sum_over_its_labels() {
        let metrics = "# TYPE a_total counter\na_total{lane=\"live\"} 5\na_total{lane=\"h\"} 2\n\
                       a_total_more 100\nb 1.5\n";
        for (name, sum) in [("a_total", 7.0), ("b", 1.5), ("c", 0.0)] {
            assert_eq!(sum_of(metrics, name), sum, "{name}");
        }
    }
}
