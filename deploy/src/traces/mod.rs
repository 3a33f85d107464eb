//! Traces of sampled requests, sent to an OpenTelemetry collector: from the head of a request to
//! the moment at which its rows are in ClickHouse.
//!
//! Nothing waits for the collector. Both queues are bounded; what does not fit, what the collector
//! refuses, and what is left at a stop is dropped, and but for the last counted.
//!
//! | Module | Holds |
//! |---|---|
//! | `waiting` | traces whose rows are on their way to ClickHouse |
//! | `otlp` | traces in the form that collectors accept |

mod otlp;
mod waiting;

use crate::config::Config;
use anyhow::ensure;
use millrace_import::send;
use millrace_ingest::trace::{RequestTrace, Tracer, dropped};
use millrace_pipeline::Pipeline;
use millrace_rows::{Clock, Lane, RareLog, SystemClock};
use reqwest::header::{CONTENT_TYPE, USER_AGENT};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use waiting::{FinishedTrace, WaitingTraces};

/// Interval at which finished traces are sent.
const SEND_EVERY: Duration = Duration::from_secs(1);
/// Longest wait for the collector's answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Batches that may wait for the one that is being sent.
const BATCHES_MAX: usize = 4;

/// Tracer of a configuration: of a part of all requests if there is a collector, else of none. Its
/// tasks run on this runtime.
pub fn start(config: &Config, node: &str, pipeline: &Pipeline) -> Tracer {
    let Some(traces) = &config.traces else {
        return Tracer::default();
    };
    let client = match send::client() {
        Ok(client) => client,
        Err(error) => {
            tracing::warn!("requests are not traced: {error:#}");
            return Tracer::default();
        }
    };
    let exporter = Exporter {
        client,
        url: format!("{}/v1/traces", traces.url),
        node: node.to_owned(),
        failures: RareLog::default(),
    };
    let (tracer, sampled) = Tracer::sampling(traces.ratio);
    let (batches, to_send) = mpsc::channel(BATCHES_MAX);
    tokio::spawn(collect(sampled, pipeline.clone(), batches));
    tokio::spawn(exporter.send_all(to_send));
    tracer
}

/// Collects traces until there can be no more, and passes them on once their rows are stored.
async fn collect(
    mut sampled: mpsc::Receiver<RequestTrace>,
    pipeline: Pipeline,
    batches: mpsc::Sender<Vec<FinishedTrace>>,
) {
    let (mut live, mut historical) = (
        pipeline.shipped(Lane::Live),
        pipeline.shipped(Lane::Historical),
    );
    let mut waiting = WaitingTraces::default();
    let mut every = tokio::time::interval(SEND_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_due = tokio::select! {
            trace = sampled.recv() => {
                let Some(trace) = trace else { return };
                waiting.add(trace);
                false
            }
            Ok(()) = live.changed() => false,
            Ok(()) = historical.changed() => false,
            _ = every.tick() => true,
        };
        let shipped = |lane| match lane {
            Lane::Live => *live.borrow(),
            Lane::Historical => *historical.borrow(),
        };
        waiting.settle(shipped, SystemClock.now());
        if is_due {
            let batch = waiting.take_finished();
            let count = batch.len() as u64;
            if count > 0 && batches.try_send(batch).is_err() {
                dropped(count);
            }
        }
    }
}

/// Client of a collector.
struct Exporter {
    client: reqwest::Client,
    url: String,
    node: String,
    failures: RareLog,
}

impl Exporter {
    async fn send_all(self, mut batches: mpsc::Receiver<Vec<FinishedTrace>>) {
        while let Some(batch) = batches.recv().await {
            let Err(error) = self.send(&batch).await else {
                self.failures.clear();
                continue;
            };
            dropped(batch.len() as u64);
            let error = format!("{error:#}");
            if self.failures.is_due(&error, Instant::now()) {
                tracing::warn!(error, url = self.url, "traces are not sent");
            }
        }
    }

    async fn send(&self, batch: &[FinishedTrace]) -> anyhow::Result<()> {
        let body = otlp::export_request(&self.node, batch).to_string();
        let request = self
            .client
            .post(&self.url)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("millrace/", env!("CARGO_PKG_VERSION")))
            .timeout(ANSWER_MAX)
            .body(body);
        let status = request.send().await?.status();
        ensure!(status.is_success(), "the collector answers {status}");
        Ok(())
    }
}
