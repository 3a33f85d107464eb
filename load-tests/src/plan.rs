//! What a run sends, where to, and how fast.

use crate::event_id::BATCH_EVENTS_MAX;
use crate::keys::Keys;
use crate::report::grouped;
use crate::shape::Shape;
use crate::tls::Trust;
use anyhow::{Context, Result, bail, ensure};
use http::Uri;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How requests follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Each connection sends its next request when the last was answered. Finds the capacity;
    /// its latencies flatter a slow server, as nothing is sent while it is slow.
    Closed,
    /// Requests are due at fixed times, whatever the server does; latency counts from the time a
    /// request was due (no coordinated omission).
    Open {
        /// Events due per second, over all connections.
        events_per_second: f64,
    },
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("closed loop"),
            Self::Open { events_per_second } => {
                write!(f, "open loop at {} events/s", grouped(*events_per_second))
            }
        }
    }
}

/// How bodies are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// As they are.
    None,
    /// gzip, as most SDKs do.
    Gzip,
    /// Zstandard.
    Zstd,
}

/// A run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Where to send, `http[s]://host:port[/path]`; without a path `/batch/`.
    pub url: String,
    /// With `https://`: whose certificates are taken.
    #[serde(default)]
    pub trust: Trust,
    /// The keys of the projects, taken in turn.
    #[serde(rename = "projects", default = "one_project")]
    pub keys: Keys,
    /// Closed or open loop.
    pub mode: Mode,
    /// Connections, kept open.
    pub connections: u16,
    /// Threads that share the connections; one saturates most servers' core.
    pub threads: usize,
    /// CPUs to pin the threads to, in turn; empty: not pinned.
    pub pin: Vec<usize>,
    /// Events in a request.
    pub batch_events: u32,
    /// Bytes of one event's JSON.
    pub event_bytes: usize,
    /// How much events have in common.
    #[serde(default = "Shape::of_old_files")]
    pub event_shape: Shape,
    /// Encoding of the bodies.
    pub compression: Compression,
    /// The compressor's level; 1 is the cheapest for the generator.
    pub compression_level: i32,
    /// Part of the requests that are historical migrations of the past year, 0 to 1.
    pub historical_share: f64,
    /// Part of the requests that have one event to be rejected, 0 to 1. Such a request is
    /// acknowledged if just that one was.
    #[serde(default)]
    pub rejected_share: f64,
    /// Time before the window in which figures are taken.
    pub warm_up: Duration,
    /// Length of that window.
    pub duration: Duration,
    /// Most requests to send, warm-up included; for exact counts instead of a time.
    pub requests_max: Option<u64>,
    /// How long to wait for an answer; after it the request counts as failed.
    pub timeout: Duration,
    /// The first quarter of all uuids; at random when `None`.
    pub run_id: Option<u32>,
    /// Where to note acknowledged batches, for `verify`.
    pub ledger: Option<PathBuf>,
    /// The server's process, to report its CPU time and memory.
    pub server_pid: Option<u32>,
}

impl Plan {
    /// Bytes of the default event, with 25 properties.
    pub const EVENT_BYTES_DEFAULT: usize = 998;
    /// Bytes of the `small` event, with one property.
    pub const EVENT_BYTES_SMALL: usize = 136;

    /// A closed loop of 16 connections sending 250 default events a request for 10 seconds after
    /// 2 of warm-up.
    #[must_use]
    pub fn new(url: &str, key: &str) -> Self {
        Self {
            url: url.to_owned(),
            trust: Trust::default(),
            keys: Keys::new(vec![key.to_owned()]),
            mode: Mode::Closed,
            connections: 16,
            threads: 1,
            pin: Vec::new(),
            batch_events: 250,
            event_bytes: Self::EVENT_BYTES_DEFAULT,
            event_shape: Shape::Visits,
            compression: Compression::None,
            compression_level: 1,
            historical_share: 0.0,
            rejected_share: 0.0,
            warm_up: Duration::from_secs(2),
            duration: Duration::from_secs(10),
            requests_max: None,
            timeout: Duration::from_secs(30),
            run_id: None,
            ledger: None,
            server_pid: None,
        }
    }

    /// The same without warm-up or end: `requests_max` requests and no more.
    #[must_use]
    pub fn with_requests(mut self, requests_max: u64) -> Self {
        self.requests_max = Some(requests_max);
        self.warm_up = Duration::ZERO;
        self.duration = Duration::from_secs(24 * 3600);
        self
    }

    /// Says what cannot be run, in a sentence.
    ///
    /// # Errors
    /// The first thing found wrong.
    pub fn check(&self) -> Result<Target> {
        ensure!(self.connections > 0, "--connections must be at least 1");
        ensure!(self.threads > 0, "--threads must be at least 1");
        ensure!(
            (1..BATCH_EVENTS_MAX).contains(&self.batch_events),
            "--batch-events must be 1 to {BATCH_EVENTS_MAX}"
        );
        ensure!(
            (0.0..=1.0).contains(&self.historical_share),
            "--historical-share must be 0 to 1"
        );
        ensure!(
            (0.0..=1.0).contains(&self.rejected_share),
            "--rejected-share must be 0 to 1"
        );
        ensure!(
            self.rejected_share == 0.0 || self.batch_events > 1,
            "--rejected-share needs --batch-events of at least 2: one stays good"
        );
        ensure!(
            !self.duration.is_zero(),
            "--duration must be longer than nothing"
        );
        self.keys.check()?;
        if let Mode::Open { events_per_second } = self.mode {
            ensure!(
                events_per_second.is_finite() && events_per_second > 0.0,
                "--rate must be above 0"
            );
        }
        Target::parse(&self.url)
    }
}

/// Result files from before there could be several do not say.
fn one_project() -> Keys {
    Keys::from(1)
}

/// Where to send, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `host:port`, for connecting and the Host header.
    pub authority: String,
    /// Path and query.
    pub path: String,
    /// Whether TLS is spoken.
    pub tls: bool,
}

impl Target {
    /// Takes a URL apart.
    ///
    /// # Errors
    /// Not an `http://` or `https://` URL.
    pub fn parse(url: &str) -> Result<Self> {
        let uri: Uri = url
            .parse()
            .with_context(|| format!("{url:?} is not a URL"))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => bail!("{url:?} does not begin with http:// or https://"),
        };
        let default_port = if tls { 443 } else { 80 };
        let authority = uri
            .authority()
            .with_context(|| format!("{url:?} names no host"))?;
        let path = match uri.path_and_query().map(http::uri::PathAndQuery::as_str) {
            None | Some("" | "/") => "/batch/",
            Some(path) => path,
        };
        Ok(Self {
            authority: format!(
                "{}:{}",
                authority.host(),
                authority.port_u16().unwrap_or(default_port)
            ),
            path: path.to_owned(),
            tls,
        })
    }

    /// The host alone, as a certificate has it: without port, and without an IPv6 address's
    /// brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        let host = self.authority.rsplit_once(':').map_or("", |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        for (url, authority, host, path, tls) in [
            ("http://h:8000", "h:8000", "h", "/batch/", false),
            ("http://h:8000/", "h:8000", "h", "/batch/", false),
            ("http://h/e/?s=t", "h:80", "h", "/e/?s=t", false),
            ("http://[::1]:1/batch", "[::1]:1", "::1", "/batch", false),
            (
                "https://h.example",
                "h.example:443",
                "h.example",
                "/batch/",
                true,
            ),
            ("https://[::1]", "[::1]:443", "::1", "/batch/", true),
        ] {
            let target = Target::parse(url).unwrap();
            let parts = (&*target.authority, target.host(), &*target.path, target.tls);
            assert_eq!(parts, (authority, host, path, tls), "{url}");
        }
        for url in ["ftp://h", "h:80", "/batch", "", "not a url"] {
            assert!(Target::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_plan_that_cannot_run_says_why() {
        let good = Plan::new("http://h", "key");
        type Break = fn(&mut Plan);
        let cases: [(&str, Break); 8] = [
            ("--connections", |plan| plan.connections = 0),
            ("--threads", |plan| plan.threads = 0),
            ("--batch-events", |plan| plan.batch_events = 0),
            ("--historical-share", |plan| plan.historical_share = 1.5),
            ("--rejected-share", |plan| plan.rejected_share = -0.1),
            ("--batch-events", |plan| {
                plan.rejected_share = 0.5;
                plan.batch_events = 1;
            }),
            ("--rate", |plan| {
                plan.mode = Mode::Open {
                    events_per_second: 0.0,
                };
            }),
            ("key", |plan| plan.keys = Keys::new(Vec::new())),
        ];
        assert!(good.check().is_ok());
        for (says, breaks) in cases {
            let mut plan = good.clone();
            breaks(&mut plan);
            let error = plan.check().unwrap_err().to_string();
            assert!(error.contains(says), "{error} should name {says}");
        }
    }
}
