//! Metrics of exports, for Prometheus.

use crate::records::{BatchExports, ExportPlanner};
use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use millrace_catalog::{Catalog, RunStatus};
use millrace_rows::RareLog;
use std::convert::Infallible;
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

/// Interval at which the state of exports in the catalog is recorded.
const LAG_EVERY: Duration = Duration::from_secs(5);

/// True (1) while this process leads.
const LEADER: &str = "millrace_export_leader";
/// Runs that ended, by `status`.
const RUNS: &str = "millrace_export_runs_total";
/// Rows that were delivered.
const ROWS: &str = "millrace_export_rows_total";
/// Bytes that were delivered, as they were sent.
const BYTES: &str = "millrace_export_bytes_total";
/// Panics of runs and of planning.
const PANICS: &str = "millrace_export_panics_total";
/// Time since the end of the oldest window by the clock that is not delivered, in seconds.
const LAG: &str = "millrace_export_lag_seconds";
/// Exports that wait for the operator.
const WAITING: &str = "millrace_exports_waiting";

/// Describes the metrics; called once, when the engine starts.
pub(super) fn describe() {
    describe_gauge!(LEADER, "1 if this process plans exports, else 0");
    describe_counter!(RUNS, Unit::Count, "Export runs that ended, by status");
    describe_counter!(ROWS, Unit::Count, "Rows that exports delivered");
    describe_counter!(BYTES, Unit::Bytes, "Bytes that exports delivered, as sent");
    describe_counter!(
        PANICS,
        Unit::Count,
        "Panics of export runs and of their planning, each of which ended its try alone"
    );
    describe_gauge!(
        LAG,
        Unit::Seconds,
        "Age of the oldest scheduled window that is not delivered"
    );
    describe_gauge!(
        WAITING,
        Unit::Count,
        "Exports that wait for the server's operator, as for a missing key or for ClickHouse"
    );
}

pub(super) fn leads(is_leader: bool) {
    gauge!(LEADER).set(f64::from(u8::from(is_leader)));
}

pub(super) fn ended(status: RunStatus) {
    counter!(RUNS, "status" => format!("{status:?}")).increment(1);
}

pub(super) fn delivered(rows: u64, bytes: u64) {
    counter!(ROWS).increment(rows);
    counter!(BYTES).increment(bytes);
}

pub(super) fn panicked() {
    counter!(PANICS).increment(1);
}

/// Records the lag of exports, and how many wait for the operator, at intervals. Every process does
/// so, whether it leads or not: otherwise the lag would be missing when no process leads, or the
/// leader hangs. Without an answer from the catalog the last lag grows with time, as the real one
/// would. A question that is not answered is not asked again: each would hold a connection.
pub(super) async fn record_lag(catalog: &Catalog) -> Infallible {
    let mut every = tokio::time::interval(LAG_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut last, failures) = (Duration::ZERO, RareLog::default());
    loop {
        every.tick().await;
        let mut asking = pin!(async {
            (
                ExportPlanner::new(catalog).lag().await,
                BatchExports::new(catalog).waiting().await,
            )
        });
        let (lag, waiting) = loop {
            tokio::select! {
                answers = &mut asking => break answers,
                _ = every.tick() => {
                    last += LAG_EVERY;
                    gauge!(LAG).set(last.as_secs_f64());
                }
            }
        };
        match lag {
            Ok(lag) => last = lag,
            Err(error) => {
                if failures.is_due(&format!("lag: {error}"), Instant::now()) {
                    tracing::warn!(%error, "the lag of exports cannot be read");
                }
                last += LAG_EVERY;
            }
        }
        gauge!(LAG).set(last.as_secs_f64());
        match waiting {
            Ok(waiting) => gauge!(WAITING).set(u32::try_from(waiting).unwrap_or(u32::MAX)),
            Err(error) => {
                if failures.is_due(&format!("waiting: {error}"), Instant::now()) {
                    tracing::warn!(%error, "exports that wait cannot be counted");
                }
            }
        }
    }
}
