//! Metrics of certificates and handshakes.

use ::metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use std::time::Duration;

const EXPIRY: &str = "millrace_tls_certificate_expiry_timestamp_seconds";
const RELOAD_FAILING: &str = "millrace_tls_reload_failing";
const RELOADS: &str = "millrace_tls_reloads_total";
const HANDSHAKES: &str = "millrace_tls_handshakes_total";

/// Names and explains the metrics.
pub(crate) fn describe() {
    describe_gauge!(
        EXPIRY,
        Unit::Seconds,
        "Time at which the certificate of the listeners expires, in Unix seconds"
    );
    describe_gauge!(
        RELOAD_FAILING,
        "1 while the files of the certificate cannot be used and an earlier one is, else 0"
    );
    describe_counter!(
        RELOADS,
        "Reads of changed certificate files, by outcome: done or failed"
    );
    describe_counter!(
        HANDSHAKES,
        "TLS handshakes, by listener and outcome: done, failed, timeout, displaced, plain_http"
    );
}

/// Sets the gauges of the certificate that is in use.
pub(crate) fn certificate(expires_at: Duration) {
    gauge!(EXPIRY).set(expires_at.as_secs_f64());
    gauge!(RELOAD_FAILING).set(0.0);
}

/// Counts a certificate that was replaced.
pub(crate) fn reloaded() {
    counter!(RELOADS, "outcome" => "done").increment(1);
}

/// Counts files that cannot be used.
pub(crate) fn reload_failed() {
    counter!(RELOADS, "outcome" => "failed").increment(1);
    gauge!(RELOAD_FAILING).set(1.0);
}

/// Counts a handshake.
pub(crate) fn handshake(listener: &'static str, outcome: &'static str) {
    counter!(HANDSHAKES, "listener" => listener, "outcome" => outcome).increment(1);
}
