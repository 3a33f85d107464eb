//! Plan of a run: content, target and rate.

use crate::api::{Api, Header};
use crate::event_id::BATCH_EVENTS_MAX;
use crate::event_shape::{self, EventShape};
use crate::keys::Keys;
use crate::mix::RequestSize;
use crate::own_body::OwnBody;
use crate::stages::Stage;
use crate::target::Target;
use crate::tls::Trust;
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

pub use crate::mode::Mode;

/// Encoding of request bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// No compression.
    None,
    /// gzip, as most SDKs do.
    Gzip,
    /// Zstandard.
    Zstd,
}

/// Plan of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// URL to send to, `http[s]://host:port[/path]`; without a path `/batch/`.
    pub url: String,
    /// Form of the bodies.
    #[serde(default)]
    pub api: Api,
    /// Further headers, which may be secrets: no file has them.
    #[serde(skip)]
    pub headers: Vec<Header>,
    /// Trusted certificates of an `https://` URL.
    #[serde(default)]
    pub trust: Trust,
    /// Keys of the projects, taken in turn.
    #[serde(rename = "projects", default = "one_project")]
    pub keys: Keys,
    /// Closed or open loop.
    pub mode: Mode,
    /// Number of connections, kept open.
    pub connections: u16,
    /// Number of threads that share the connections; one saturates most servers' core.
    pub threads: usize,
    /// CPUs to pin the threads to, in turn; empty for no pinning.
    pub pin: Vec<usize>,
    /// Number of events in a request.
    pub batch_events: u32,
    /// Size of one event's JSON in bytes.
    pub event_bytes: usize,
    /// Sizes that the requests take in turn by their weights, in place of `batch_events`; empty if
    /// all have the same.
    #[serde(default)]
    pub mix: Vec<RequestSize>,
    /// Bodies of the user's, sent in turn in place of events of our making.
    #[serde(default)]
    pub bodies: Vec<OwnBody>,
    /// Similarity of the events.
    #[serde(default = "EventShape::of_old_files")]
    pub event_shape: EventShape,
    /// Encoding of the bodies.
    pub compression: Compression,
    /// Compression level; 1 is the cheapest for the generator.
    pub compression_level: i32,
    /// Share of the requests that are historical migrations of the past year, 0 to 1.
    pub historical_share: f64,
    /// Share of the requests with one event to be rejected, 0 to 1. Such a request is acknowledged
    /// if just that event was rejected.
    #[serde(default)]
    pub rejected_share: f64,
    /// Length of the warm-up before the window in which figures are taken.
    pub warm_up: Duration,
    /// Length of the window.
    pub duration: Duration,
    /// Highest number of requests, warm-up included; for exact counts instead of a time.
    pub requests_max: Option<u64>,
    /// Longest wait for a response; after it the request counts as failed.
    pub timeout: Duration,
    /// First quarter of all uuids; random when `None`.
    pub run_id: Option<u32>,
    /// Ledger file for acknowledged batches, for `verify`.
    pub ledger: Option<PathBuf>,
    /// Process id of the server, to report its CPU time and memory.
    pub server_pid: Option<u32>,
}

impl Plan {
    /// Size of the default event in bytes, with 25 properties.
    pub const EVENT_BYTES_DEFAULT: usize = event_shape::EVENT_BYTES_DEFAULT;
    /// Size of the `small` event in bytes, with one property.
    pub const EVENT_BYTES_SMALL: usize = event_shape::EVENT_BYTES_SMALL;

    /// Default plan: a closed loop of 16 connections that sends 250 default events per request, for
    /// 10 seconds after 2 of warm-up.
    #[must_use]
    pub fn new(url: &str, key: &str) -> Self {
        Self {
            url: url.to_owned(),
            api: Api::Batch,
            headers: Vec::new(),
            trust: Trust::default(),
            keys: Keys::new(vec![key.to_owned()]),
            mode: Mode::Closed,
            connections: 16,
            threads: 1,
            pin: Vec::new(),
            batch_events: 250,
            event_bytes: Self::EVENT_BYTES_DEFAULT,
            mix: Vec::new(),
            bodies: Vec::new(),
            event_shape: EventShape::Visits,
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

    /// Changes the plan to exactly `requests_max` requests, without warm-up or end.
    #[must_use]
    pub fn with_requests(mut self, requests_max: u64) -> Self {
        self.requests_max = Some(requests_max);
        self.warm_up = Duration::ZERO;
        self.duration = Duration::from_secs(24 * 3600);
        self
    }

    /// Changes the plan to an open loop of these stages, which are its window.
    #[must_use]
    pub fn with_stages(mut self, stages: Vec<Stage>) -> Self {
        self.duration = stages.iter().map(|stage| stage.duration).sum();
        self.mode = Mode::Stages(stages);
        self
    }

    /// Sizes of the requests, or of the user's bodies; one if they are not mixed.
    #[must_use]
    pub fn sizes(&self) -> Vec<RequestSize> {
        let size = |body: &OwnBody| RequestSize {
            events: body.events,
            event_bytes: None,
            weight: 1,
        };
        if !self.bodies.is_empty() {
            return self.bodies.iter().map(size).collect();
        }
        if !self.mix.is_empty() {
            return self.mix.clone();
        }
        vec![RequestSize {
            events: self.batch_events,
            event_bytes: None,
            weight: 1,
        }]
    }

    /// Mean number of events in a request.
    #[must_use]
    pub fn mean_events(&self) -> f64 {
        let (mut events, mut weights) = (0.0, 0.0);
        for size in self.sizes() {
            events += f64::from(size.events) * f64::from(size.weight);
            weights += f64::from(size.weight);
        }
        events / weights
    }

    /// Sizes of the requests in words, such as `250 × 998 B a request`.
    #[must_use]
    pub fn sizes_text(&self) -> String {
        if !self.bodies.is_empty() {
            let paths = self.bodies.iter().map(|body| body.path.to_string_lossy());
            return format!("the body of {}", paths.collect::<Vec<_>>().join(", "));
        }
        if self.mix.is_empty() {
            return format!("{} × {} B a request", self.batch_events, self.event_bytes);
        }
        let sizes: Vec<_> = self.mix.iter().map(RequestSize::to_string).collect();
        format!("requests of {}", sizes.join(", "))
    }

    /// Checks that the plan can run.
    ///
    /// # Errors
    /// The first setting found wrong, in a sentence.
    pub fn check(&self) -> Result<Target> {
        ensure!(self.connections > 0, "--connections must be at least 1");
        ensure!(self.threads > 0, "--threads must be at least 1");
        self.check_sizes()?;
        self.check_bodies()?;
        ensure!(
            !self.duration.is_zero(),
            "--duration must be longer than nothing"
        );
        self.mode.check()?;
        Target::parse(&self.url)
    }

    /// Checks the user's bodies and the keys, which such bodies may lack.
    fn check_bodies(&self) -> Result<()> {
        if self.bodies.is_empty() {
            return self.keys.check();
        }
        ensure!(
            self.historical_share == 0.0 && self.rejected_share == 0.0,
            "--historical-share and --rejected-share cannot change the bodies of --body-file"
        );
        ensure!(
            self.ledger.is_none(),
            "--ledger needs events of our making: the uuids of --body-file may be others"
        );
        if self.bodies.iter().any(OwnBody::has_key) {
            self.keys.check()?;
            ensure!(
                self.keys.have_one_length(),
                "{{{{key}}}} in a --body-file needs project keys of one length"
            );
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<()> {
        let sizes = self.sizes();
        let are_encodable = |size: &RequestSize| (1..BATCH_EVENTS_MAX).contains(&size.events);
        ensure!(
            sizes.iter().all(are_encodable),
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
            self.rejected_share == 0.0 || sizes.iter().all(|size| size.events > 1),
            "--rejected-share needs --batch-events of at least 2: one stays good"
        );
        ensure!(
            self.api != Api::Event
                || !self.bodies.is_empty()
                || sizes.iter().all(|size| size.events == 1),
            "--api event needs --batch-events 1: it has one event a request"
        );
        ensure!(
            self.api == Api::Batch || self.historical_share == 0.0,
            "--historical-share needs --api batch, which alone can mark migrations"
        );
        ensure!(
            self.ledger.is_none() || self.mix.is_empty(),
            "--ledger needs requests of one size: `verify` could not tell whether a batch whose \
             response was lost is stored whole"
        );
        Ok(())
    }
}

/// Default for result files from before a run could have several projects.
fn one_project() -> Keys {
    Keys::from(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_cannot_run_says_why() {
        let good = Plan::new("http://h", "key");
        type Break = fn(&mut Plan);
        let cases: [(&str, Break); 12] = [
            ("--connections", |plan| plan.connections = 0),
            ("--threads", |plan| plan.threads = 0),
            ("--batch-events", |plan| plan.batch_events = 0),
            ("--historical-share", |plan| plan.historical_share = 1.5),
            ("--rejected-share", |plan| plan.rejected_share = -0.1),
            ("--batch-events", |plan| {
                plan.rejected_share = 0.5;
                plan.batch_events = 1;
            }),
            ("--batch-events", |plan| {
                plan.rejected_share = 0.5;
                plan.mix = vec![RequestSize::parse("1").unwrap()];
            }),
            ("--api event", |plan| plan.api = Api::Event),
            ("--api batch", |plan| {
                plan.api = Api::List;
                plan.historical_share = 0.5;
            }),
            ("--ledger", |plan| {
                plan.mix = vec![RequestSize::parse("1").unwrap()];
                plan.ledger = Some(PathBuf::from("ledger"));
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
