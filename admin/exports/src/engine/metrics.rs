//! How exports go, for Prometheus.

use metrics::{counter, gauge};
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

/// Looks how far behind exports are; without an answer the last one stands.
pub(super) async fn lag(catalog: &Catalog) {
    match catalog.exports_lag().await {
        Ok(lag) => gauge!(LAG).set(lag.as_secs_f64()),
        Err(error) => tracing::warn!(%error, "the lag of exports cannot be read"),
    }
}
