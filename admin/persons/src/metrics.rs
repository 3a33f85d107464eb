//! How it goes, for Prometheus.

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use millrace_catalog::{Tally, UtcTime};
use millrace_rows::{Clock as _, SystemClock};

/// Whether this process leads (1) or not (0).
const LEADER: &str = "millrace_person_leader";
/// Updates that were applied.
const UPDATES: &str = "millrace_person_updates_total";
/// What of updates was not done, by `reason`.
const LEFT_OUT: &str = "millrace_person_updates_left_out_total";
/// Persons that became part of others.
const MERGED: &str = "millrace_persons_merged_total";
/// How far persons and groups in ClickHouse are behind, in seconds.
const LAG: &str = "millrace_person_lag_seconds";

/// Says what the metrics are; once, when the worker starts.
pub(crate) fn describe() {
    describe_gauge!(
        LEADER,
        "Whether this process applies what events say of persons (1) or not (0)"
    );
    describe_counter!(UPDATES, Unit::Count, "Events applied to persons and groups");
    describe_counter!(
        LEFT_OUT,
        Unit::Count,
        "What events said of persons and groups and was not done, by reason"
    );
    describe_counter!(MERGED, Unit::Count, "Persons that became part of others");
    describe_gauge!(
        LAG,
        Unit::Seconds,
        "How far persons and groups in ClickHouse are behind the events that arrive, at the leader"
    );
}

pub(crate) fn leads(is_leader: bool) {
    gauge!(LEADER).set(f64::from(u8::from(is_leader)));
}

pub(crate) fn applied(tally: &Tally) {
    counter!(UPDATES).increment(tally.applied);
    counter!(MERGED).increment(tally.merged);
    for (reason, count) in [
        ("no_project", tally.orphaned),
        ("already_identified", tally.refused),
        ("too_large", tally.too_large),
        ("too_many_group_types", tally.types_refused),
    ] {
        if count > 0 {
            counter!(LEFT_OUT, "reason" => reason).increment(count);
            tracing::warn!(count, reason, "not all that events say of persons was done");
        }
    }
}

/// Only the leader tells: what others last saw stands still.
pub(crate) fn no_lag() {
    gauge!(LAG).set(0.0);
}

/// Tells how far behind persons are by the time before which all is done; without one the last stands.
pub(crate) fn lag(passed: Option<UtcTime>) {
    if let Some(passed) = passed {
        let micros = SystemClock.now().0.saturating_sub(passed.0).max(0);
        gauge!(LAG).set(micros as f64 / 1e6);
    }
}
