//! Metrics of persons, for Prometheus.

use crate::state::{AppliedUpdates, GrowthKind, LimitedProject, TooLargeUpdate};
use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use millrace_catalog::UtcTime;
use millrace_rows::{Clock as _, PERSON_PROPERTIES_BYTES_MAX, SystemClock};

/// True (1) while this process holds the lease.
const LEADER: &str = "millrace_person_leader";
/// Updates that were applied.
const UPDATES: &str = "millrace_person_updates_total";
/// Parts of updates that were left out, by `reason`.
const LEFT_OUT: &str = "millrace_person_updates_dropped_total";
/// Persons that were merged into others.
const MERGED: &str = "millrace_persons_merged_total";
/// New distinct ids and groups.
const NEW_IDS: &str = "millrace_person_new_ids_total";
/// Projects with a backlog.
const BACKLOGS: &str = "millrace_person_backlogs";
/// Size of the catalog, in bytes.
const CATALOG_BYTES: &str = "millrace_catalog_bytes";
/// Lag of persons and groups in ClickHouse, in seconds.
const LAG: &str = "millrace_person_lag_seconds";

/// Describes the metrics; called once, when the worker starts.
pub(crate) fn describe() {
    describe_gauge!(
        LEADER,
        "1 if this process applies person and group updates, else 0"
    );
    describe_counter!(UPDATES, Unit::Count, "Events applied to persons and groups");
    describe_counter!(
        LEFT_OUT,
        Unit::Count,
        "Person and group updates that were not applied, by reason"
    );
    // A counter that appears with its first count does not increase.
    for reason in ["too_many_new_ids", "too_many_new_bytes"] {
        counter!(LEFT_OUT, "reason" => reason).increment(0);
    }
    describe_counter!(MERGED, Unit::Count, "Persons that were merged into others");
    describe_counter!(
        NEW_IDS,
        Unit::Count,
        "Distinct ids and groups that became known, each kept for good"
    );
    describe_gauge!(
        BACKLOGS,
        "Projects with a backlog of person updates, which are applied separately"
    );
    describe_gauge!(
        CATALOG_BYTES,
        Unit::Bytes,
        "Size of the catalog's database, as each process with the organization API sees it"
    );
    describe_gauge!(
        LAG,
        Unit::Seconds,
        "Age of the last events that persons and groups in ClickHouse reflect, at the leader"
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
    let stats = &applied.stats;
    counter!(NEW_IDS).increment(stats.new_ids);
    if stats.over_limit > 0 {
        counter!(LEFT_OUT, "reason" => "too_many_new_ids").increment(stats.over_limit);
    }
    if stats.over_byte_limit > 0 {
        counter!(LEFT_OUT, "reason" => "too_many_new_bytes").increment(stats.over_byte_limit);
    }
    // Logged once for each project and hour: the counter has the rest.
    applied.limited.iter().for_each(warn_of_limit);
    counter!(UPDATES).increment(stats.applied);
    counter!(MERGED).increment(stats.merged);
    for (reason, count) in [
        ("no_project", stats.without_project),
        ("too_many_ids_to_merge", stats.too_many_ids),
        ("too_many_group_types", stats.types_refused),
    ] {
        if count > 0 {
            counter!(LEFT_OUT, "reason" => reason).increment(count);
            tracing::warn!(
                count,
                reason,
                "some person and group updates were not applied"
            );
        }
    }
    if let Some(first) = &applied.first_too_large {
        too_large(stats.too_large, first);
    }
    if let Some(first) = applied.first_refused {
        let reason = "already_identified";
        counter!(LEFT_OUT, "reason" => reason).increment(stats.refused);
        tracing::warn!(
            count = stats.refused, reason, project_id = first.project_id.0, uuid = %first.uuid,
            "some person and group updates were not applied: they merge persons that are identified; the first \
             such event has this uuid"
        );
    }
}

fn warn_of_limit(limited: &LimitedProject) {
    let (project_id, hour) = (limited.project_id.0, limited.hour);
    match limited.growth {
        GrowthKind::Ids => tracing::warn!(
            project_id, %hour,
            "a project has more new distinct ids than new_distinct_ids_per_hour_max; its \
             events are stored, but person updates of further new ids are dropped until the \
             next hour"
        ),
        GrowthKind::Bytes => tracing::warn!(
            project_id, %hour,
            "properties of a project's persons and groups have grown by more than \
             new_property_bytes_per_hour_max; its events are stored, but further properties of \
             persons and groups are dropped until the next hour"
        ),
    }
}

fn too_large(count: u64, first: &TooLargeUpdate) {
    let reason = "too_large";
    counter!(LEFT_OUT, "reason" => reason).increment(count);
    tracing::warn!(
        count, reason, project_id = first.project_id.0, uuid = %first.uuid,
        bytes = first.bytes, bytes_max = PERSON_PROPERTIES_BYTES_MAX,
        property = first.property.as_str(), property_bytes = first.property_bytes,
        "some person and group updates were not applied: a person or group would have had too many \
         bytes of properties, or a group too long a name; the first such event has this uuid, and \
         this property is its largest"
    );
}

/// Resets the gauges of a process that does not lead: its last values would stand still.
pub(crate) fn no_lag() {
    gauge!(LAG).set(0.0);
    backlogs(0);
}

/// Records the lag of persons by the arrival time before which all is done; without one the gauge
/// keeps its last value.
pub(crate) fn lag(passed: Option<UtcTime>) {
    if let Some(passed) = passed {
        let micros = SystemClock.now().0.saturating_sub(passed.0).max(0);
        gauge!(LAG).set(micros as f64 / 1e6);
    }
}
