//! Servers as child processes.

use super::bench::Bench;
use crate::credentials::Credentials;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Room for the log: a quarter of it is never reached in a run, past which rows are compressed
/// whatever the disk.
const LOG_BYTES_MAX: &str = "64GiB";
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(5);

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
    data: TempDir,
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
        let data = bench.folder(match contestant {
            Contestant::Ours { store, .. } => store,
            Contestant::Tape | Contestant::Drain => Store::Memory,
        })?;
        let mut command = Command::new("taskset");
        command.args(["-c", &bench.cpus.server(contestant.cpus())]);
        match contestant {
            Contestant::Ours { workers, .. } => ours(&mut command, bench, workers, data.path()),
            Contestant::Tape => yardstick(&mut command, bench).arg("--tape"),
            Contestant::Drain => yardstick(&mut command, bench),
        };
        let errors = std::fs::File::create(data.path().join("stderr")).context("stderr")?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .context("cannot run taskset")?;
        let output = child.stdout.take().context("stdout")?;
        // From here on dropping ends the child.
        let mut server = Self {
            url: String::new(),
            key: "any".to_owned(),
            child,
            data,
        };
        server.url = server.wait_for_url(output)?;
        if let Contestant::Ours { .. } = contestant {
            let credentials = Credentials::read(&server.data.path().join("credentials.json"))?;
            (server.url, server.key) = (credentials.ingest_url, credentials.project_api_key);
        }
        Ok(server)
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Both kinds of server print their URL once they listen. What they print later is dropped,
    /// as a full pipe would stop them.
    fn wait_for_url(&mut self, output: ChildStdout) -> Result<String> {
        let mut output = BufReader::new(output);
        let mut line = String::new();
        while output.read_line(&mut line).context("stdout")? > 0 {
            if let Some(url) = line
                .split_ascii_whitespace()
                .find(|w| w.starts_with("http://"))
            {
                let url = url.to_owned();
                std::thread::Builder::new()
                    .name("server-output".to_owned())
                    .spawn(move || std::io::copy(&mut output, &mut std::io::sink()))
                    .context("cannot start a thread")?;
                return Ok(url);
            }
            line.clear();
        }
        let status = self.child.wait().context("wait")?;
        let errors = std::fs::read_to_string(self.data.path().join("stderr")).unwrap_or_default();
        bail!("the server did not start ({status}):\n{errors}")
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
        let path = self.data.path().join("credentials.json");
        let text = std::fs::read(&path).context("credentials")?;
        let json: serde_json::Value = serde_json::from_slice(&text).context("credentials")?;
        let url = json.get("health_url").and_then(serde_json::Value::as_str);
        let address = url
            .and_then(|url| url.strip_prefix("http://"))
            .context("no health_url")?;
        Ok(sum_of(&get(address, "/metrics")?, name))
    }
}

impl Drop for Server {
    /// What it has not shipped is of no use to anyone, so it is not asked to finish.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ours<'a>(
    command: &'a mut Command,
    bench: &Bench<'_>,
    workers: usize,
    data: &Path,
) -> &'a mut Command {
    command
        .arg(&bench.options.server)
        .args(["ingest", "--workers", &workers.to_string()])
        .arg("--data-dir")
        .arg(data)
        .args(["--ingest-addr", "127.0.0.1:0"])
        .args(["--health-addr", "127.0.0.1:0"])
        .args(["--clickhouse-url", &bench.options.clickhouse_url])
        .args(["--log-bytes-max", LOG_BYTES_MAX])
        // All load comes from this address, which would have a share of the connections only.
        .args(["--trusted-proxies", "127.0.0.1"])
        .args(["--log-level", "error"])
}

fn yardstick<'a>(command: &'a mut Command, bench: &Bench<'_>) -> &'a mut Command {
    command
        .arg(&bench.options.load)
        .args(["drain-server", "--listen", "127.0.0.1:0"])
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
