//! How it goes, for Prometheus.

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use millrace_catalog::{AppliedUpdates, UtcTime};
use millrace_rows::{Clock as _, SystemClock};

/// Whether this process leads (1) or not (0).
const LEADER: &str = "millrace_person_leader";
/// Updates that were applied.
const UPDATES: &str = "millrace_person_updates_total";
/// What of updates was not done, by `reason`.
const LEFT_OUT: &str = "millrace_person_updates_left_out_total";
/// Persons that became part of others.
const MERGED: &str = "millrace_persons_merged_total";
/// Distinct ids and groups that became known.
const NEW_IDS: &str = "millrace_person_new_ids_total";
/// Projects whose updates are applied apart, as they are many.
const BACKLOGS: &str = "millrace_person_backlogs";
/// Size of the catalog, in bytes.
const CATALOG_BYTES: &str = "millrace_catalog_bytes";
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
    describe_counter!(
        NEW_IDS,
        Unit::Count,
        "Distinct ids and groups that became known, each kept for good"
    );
    describe_gauge!(
        BACKLOGS,
        "Projects with so many events that say something of persons that others do not wait for them"
    );
    describe_gauge!(
        CATALOG_BYTES,
        Unit::Bytes,
        "Size of the catalog's database, as each process with the organization API sees it"
    );
    describe_gauge!(
        LAG,
        Unit::Seconds,
        "How far persons and groups in ClickHouse are behind the events that arrive, at the leader"
    );
}

pub(crate) fn leads(is_leader: bool) {
    gauge!(LEADER).set(f64::from(u8::from(is_leader)));
}

pub(crate) fn backlogs(count: usize) {
    gauge!(BACKLOGS).set(count as f64);
}

pub(crate) fn catalog_bytes(bytes: u64) {
    gauge!(CATALOG_BYTES).set(bytes as f64);
}

pub(crate) fn applied(applied: &AppliedUpdates) {
    let tally = &applied.tally;
    counter!(NEW_IDS).increment(tally.new_ids);
    if tally.over_limit > 0 {
        counter!(LEFT_OUT, "reason" => "too_many_new_ids").increment(tally.over_limit);
    }
    // Once for each project and hour: the counter tells the rest.
    for limited in &applied.limited {
        tracing::warn!(
            team_id = limited.team_id.0,
            hour = %limited.hour,
            "a project has more new distinct ids than new_distinct_ids_per_hour_max; its events are stored, \
             but what those of further new ids say of persons is left out until the next hour"
        );
    }
    counter!(UPDATES).increment(tally.applied);
    counter!(MERGED).increment(tally.merged);
    for (reason, count) in [
        ("no_project", tally.orphaned),
        ("already_identified", tally.refused),
        ("too_many_ids_to_merge", tally.too_many_ids),
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
    backlogs(0);
}

/// Tells how far behind persons are by the time before which all is done; without one the last stands.
pub(crate) fn lag(passed: Option<UtcTime>) {
    if let Some(passed) = passed {
        let micros = SystemClock.now().0.saturating_sub(passed.0).max(0);
        gauge!(LAG).set(micros as f64 / 1e6);
    }
}
