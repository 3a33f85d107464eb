//! How exports go, for Prometheus.

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use millrace_catalog::{Catalog, RunStatus};

/// Whether this process leads (1) or not (0).
const LEADER: &str = "millrace_export_leader";
/// Runs that ended, by `status`.
const RUNS: &str = "millrace_export_runs_total";
/// Rows that were delivered.
const ROWS: &str = "millrace_export_rows_total";
/// Bytes that were delivered, as they were sent.
const BYTES: &str = "millrace_export_bytes_total";
/// How long the oldest window by the clock has ended that is not delivered, in seconds.
const LAG: &str = "millrace_export_lag_seconds";

/// Says what the metrics are; once, when the engine starts.
pub(super) fn describe() {
    describe_gauge!(LEADER, "Whether this process plans exports (1) or not (0)");
    describe_counter!(RUNS, Unit::Count, "Export runs that ended, by status");
    describe_counter!(ROWS, Unit::Count, "Rows that exports delivered");
    describe_counter!(BYTES, Unit::Bytes, "Bytes that exports delivered, as sent");
    describe_gauge!(
        LAG,
        Unit::Seconds,
        "How long the oldest window by the clock has ended that is not delivered, at the leader"
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

/// Only the leader tells: what others last saw stands still.
pub(super) fn no_lag() {
    gauge!(LAG).set(0.0);
}

/// Looks how far behind exports are; without an answer the last one stands.
pub(super) async fn lag(catalog: &Catalog) {
    match catalog.exports_lag().await {
        Ok(lag) => gauge!(LAG).set(lag.as_secs_f64()),
        Err(error) => tracing::warn!(%error, "the lag of exports cannot be read"),
    }
}
