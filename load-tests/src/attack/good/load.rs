//! Single events and batches at a fixed rate, beside one another.

use super::Good;
use crate::attack::weather::{Answers, Weather};
use crate::plan::{Mode, Plan};
use crate::run::{Stop, run_observed};
use crate::summary::Summary;
use anyhow::{Result, anyhow};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// Single events a second, and events a second in batches of so many.
const SINGLES_PER_SECOND: f64 = 40.0;
const BATCHED_PER_SECOND: f64 = 500.0;
const BATCH_EVENTS: u32 = 50;
const CONNECTIONS: u16 = 4;

/// What the good tenant was answered in one phase.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// Alone, or under attack.
    pub weather: Weather,
    /// Of single events, in milliseconds.
    pub singles: Latency,
    /// Of batches.
    pub batches: Latency,
}

/// Answers to one kind of requests.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Latency {
    /// Requests that were answered with 200, and those that were told to come again later.
    pub answers: Answers,
    /// Half of the answers took no longer.
    pub p50_ms: f64,
    /// All but one in a hundred took no longer.
    pub p99_ms: f64,
    /// The longest took so long.
    pub max_ms: f64,
}

impl Good<'_> {
    /// Sends for so long, and notes in a ledger what was acknowledged.
    pub(in crate::attack) fn load(
        &self,
        weather: Weather,
        duration: Duration,
        ledger: &Path,
        stop: &Stop,
    ) -> Result<Phase> {
        let (singles, batches) = (
            self.plan(1, SINGLES_PER_SECOND, duration, ledger),
            self.plan(BATCH_EVENTS, BATCHED_PER_SECOND, duration, ledger),
        );
        let (singles, batches) = std::thread::scope(|scope| {
            let beside = scope.spawn(|| run_observed(&singles, stop, &mut |_| {}));
            let batches = run_observed(&batches, stop, &mut |_| {});
            (beside.join(), batches)
        });
        let singles = singles.map_err(|_| anyhow!("a load panicked"))??;
        Ok(Phase {
            weather,
            singles: self.judged("single events", &singles),
            batches: self.judged("batches", &batches?),
        })
    }

    fn plan(&self, events: u32, rate: f64, duration: Duration, ledger: &Path) -> Plan {
        let url = &self.subject.credentials.ingest_url;
        let mut plan = Plan::new(url, &self.tenants.good.project_key);
        plan.mode = Mode::Open {
            events_per_second: rate,
        };
        plan.connections = CONNECTIONS;
        plan.batch_events = events;
        plan.warm_up = Duration::ZERO;
        plan.duration = duration;
        plan.timeout = Duration::from_secs(120);
        plan.ledger = Some(ledger.to_owned());
        plan
    }

    /// Whatever is no success and no 503 is wrong; how many of those there may be is the report's to judge.
    fn judged(&self, what: &str, summary: &Summary) -> Latency {
        let mut refused = 0;
        for (reason, count) in &summary.failures {
            if reason == "status 503" {
                refused += count;
            } else {
                let first = summary.first_failure.as_deref().unwrap_or_default();
                self.tally.wrong(format!(
                    "good tenant: {count} {what} failed, {reason} (first: {first})"
                ));
            }
        }
        Latency {
            answers: Answers {
                taken: summary.run.acknowledged_requests,
                refused,
            },
            p50_ms: summary.latency.p50_us / 1e3,
            p99_ms: summary.latency.p99_us / 1e3,
            max_ms: summary.latency.max_us / 1e3,
        }
    }
}
