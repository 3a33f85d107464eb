//! Single events and batches, each at a fixed rate, at the same time.

use super::tenant::GoodTenant;
use crate::attack::phase::{PhaseKind, ResponseCounts};
use crate::plan::{Mode, Plan};
use crate::run::run_observed;
use crate::stop::Stop;
use crate::summary::Summary;
use anyhow::{Result, anyhow};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// Single events per second, batched events per second, and events of a batch.
const SINGLES_PER_SECOND: f64 = 40.0;
const BATCHED_PER_SECOND: f64 = 500.0;
const BATCH_EVENTS: u32 = 50;
const CONNECTIONS: u16 = 4;

/// Responses to the good tenant in one phase.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseReport {
    /// Kind of the phase. JSON reports call it `weather`.
    #[serde(rename = "weather")]
    pub kind: PhaseKind,
    /// Latencies of single events.
    pub singles: Latency,
    /// Latencies of batches.
    pub batches: Latency,
}

impl PhaseReport {
    /// Returns true for an attack beyond those asked for: it shows that somebody is served, and
    /// bounds on time and refusals do not count it.
    #[must_use]
    pub fn is_extra(&self) -> bool {
        self.kind == PhaseKind::ExtraAttack
    }
}

/// Responses to one kind of requests.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Latency {
    /// Requests that were accepted with 200, and those refused with 503.
    pub answers: ResponseCounts,
    /// Median latency in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile of the latency in milliseconds.
    pub p99_ms: f64,
    /// Highest latency in milliseconds.
    pub max_ms: f64,
}

impl GoodTenant<'_> {
    /// Sends load for `duration` and records acknowledged batches in a ledger.
    pub(in crate::attack) fn load(
        &self,
        kind: PhaseKind,
        duration: Duration,
        ledger: &Path,
        stop: &Stop,
    ) -> Result<PhaseReport> {
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
        Ok(PhaseReport {
            kind,
            singles: self.checked_latency("single events", &singles),
            batches: self.checked_latency("batches", &batches?),
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

    /// Summarizes a run. Any failure but 503 is a violation; the report judges the number of 503s.
    fn checked_latency(&self, what: &str, summary: &Summary) -> Latency {
        let mut refused = 0;
        for (reason, count) in &summary.failures {
            if reason == "status 503" {
                refused += count;
            } else {
                let first = summary.first_failure.as_deref().unwrap_or_default();
                self.findings.wrong(format!(
                    "good tenant: {count} {what} failed, {reason} (first: {first})"
                ));
            }
        }
        Latency {
            answers: ResponseCounts {
                taken: summary.run.acknowledged_requests,
                refused,
            },
            p50_ms: summary.latency.p50_us / 1e3,
            p99_ms: summary.latency.p99_us / 1e3,
            max_ms: summary.latency.max_us / 1e3,
        }
    }
}
