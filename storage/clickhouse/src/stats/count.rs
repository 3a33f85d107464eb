//! Counting of the rows of a time, and sums of minutes to hours and days.
//!
//! A project's names and SDKs are kept apart up to a number, the most frequent ones; the rest is in
//! one row without a name. So the sums of a project are exact, however many names it sends.

use super::{STATS, StatsKind, begins_within, last_counted, time, within};
use crate::{ClickHouse, QueryError};
use millrace_rows::{Micros, Table};
use std::ops::Range;

/// Names and SDKs of a project that are kept apart in a minute, an hour or a day.
const NAMES_MAX: u32 = 100;
/// Longest name and SDK, in characters.
const NAME_CHARS_MAX: u32 = 100;
/// Settings of the statements: they must neither take the server's memory nor outlive our deadline.
/// Many made-up names are grouped on disk.
const BOUNDED: &str = ", max_threads = 2, max_memory_usage = 1073741824, \
     max_bytes_before_external_group_by = 268435456, max_bytes_before_external_sort = 268435456, \
     max_execution_time = 50, parallel_distributed_insert_select = 0";

/// Detail in which accepted events are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsDetail {
    /// By name and SDK.
    Names,
    /// Projects as a whole: far less to read.
    Totals,
}

impl ClickHouse {
    /// Counts the events of a kind in a time, in seconds since 1970, by steps of so many seconds.
    /// The time ends at such a step, and begins at one unless counting begins. Safe to repeat.
    ///
    /// # Errors
    /// If the server cannot be asked, or takes too long; some sums may be stored then.
    pub async fn count_stats(
        &self,
        kind: StatsKind,
        seconds: &Range<i64>,
        step_seconds: u32,
        detail: StatsDetail,
        now: Micros,
    ) -> Result<(), QueryError> {
        let counted = match kind {
            StatsKind::Accepted => {
                accepted(&self.source(Table::Events), seconds, step_seconds, detail)
            }
            StatsKind::Rejected => {
                rejected(&self.source(Table::RejectedEvents), seconds, step_seconds)
            }
        };
        self.insert_sums(&counted, seconds, step_seconds, now).await
    }

    /// Sums the events of a kind in a time by longer steps, from what is there by shorter ones. The
    /// time begins and ends at a longer step. Safe to repeat.
    ///
    /// # Errors
    /// As [`ClickHouse::count_stats`].
    pub async fn sum_stats(
        &self,
        kind: StatsKind,
        seconds: &Range<i64>,
        (from_step, to_step): (u32, u32),
        now: Micros,
    ) -> Result<(), QueryError> {
        let condition = format!(
            "step_seconds = {from_step} AND {} AND {}",
            kind.condition(),
            begins_within(seconds),
        );
        let summed = format!(
            "SELECT team_id, {at} AS begun, toString(code) AS its_code, event AS name, sdk AS lib, \
             sum(events) AS n, sum(historical) AS h, sum(bytes) AS b FROM {rows} \
             GROUP BY team_id, begun, its_code, name, lib",
            at = step_of("toUnixTimestamp(at)", to_step),
            rows = last_counted(&self.source_named(STATS), &condition),
        );
        self.insert_sums(&summed, seconds, to_step, now).await
    }

    /// Stores sums of a time as a count of its own, later than any that is there: clocks of several
    /// processes differ.
    async fn insert_sums(
        &self,
        sums: &str,
        seconds: &Range<i64>,
        step_seconds: u32,
        now: Micros,
    ) -> Result<(), QueryError> {
        let counted_at = format!(
            "greatest({now}, assumeNotNull((SELECT addMicroseconds(max(counted_at), 1) FROM {table} \
             WHERE step_seconds = {step_seconds} AND team_id > 0 AND {is_within})))",
            now = time(now),
            table = self.source_named(STATS),
            is_within = begins_within(seconds),
        );
        let rows = most_frequent(sums, step_seconds, &counted_at);
        self.insert_stats(&rows, BOUNDED).await
    }
}

/// SELECT of accepted events by project, step, name and SDK.
fn accepted(table: &str, seconds: &Range<i64>, step_seconds: u32, detail: StatsDetail) -> String {
    let (name, lib) = match detail {
        StatsDetail::Names => (
            format!("leftUTF8(toString(event), {NAME_CHARS_MAX})"),
            format!("leftUTF8(JSONExtractString(properties, '$lib'), {NAME_CHARS_MAX})"),
        ),
        StatsDetail::Totals => ("''".to_owned(), "''".to_owned()),
    };
    format!(
        "SELECT team_id, {at} AS begun, '' AS its_code, {name} AS name, {lib} AS lib, \
         count() AS n, countIf(historical_migration) AS h, sum(length(properties)) AS b FROM {table} \
         WHERE {is_within} GROUP BY team_id, begun, its_code, name, lib",
        at = step_of(
            "intDiv(toUnixTimestamp64Micro(created_at), 1000000)",
            step_seconds
        ),
        is_within = within("created_at", seconds, micros),
    )
}

/// SELECT of rejected events by project, step and code. Their JSON, of up to 4 MiB each, is not
/// read.
fn rejected(table: &str, seconds: &Range<i64>, step_seconds: u32) -> String {
    format!(
        "SELECT team_id, {at} AS begun, toString(code) AS its_code, '' AS name, '' AS lib, \
         count() AS n, countIf(historical_migration) AS h, toUInt64(0) AS b FROM {table} \
         WHERE {is_within} GROUP BY team_id, begun, its_code, name, lib",
        at = step_of(
            "intDiv(toUnixTimestamp64Micro(received_at), 1000000)",
            step_seconds
        ),
        is_within = within("received_at", seconds, micros),
    )
}

/// SELECT of the table's columns from a SELECT of sums: of each project and step the most frequent
/// names are kept apart.
fn most_frequent(sums: &str, step_seconds: u32, counted_at: &str) -> String {
    format!(
        "SELECT team_id, {step_seconds}, begun, its_code, kept_name, kept_lib, sum(n), sum(h), sum(b), {counted_at} \
         FROM (SELECT *, if(place <= {NAMES_MAX}, name, '') AS kept_name, \
         if(place <= {NAMES_MAX}, lib, '') AS kept_lib \
         FROM (SELECT *, row_number() OVER (PARTITION BY team_id, begun ORDER BY n DESC, its_code, name, lib) AS place \
         FROM ({sums}))) GROUP BY team_id, begun, its_code, kept_name, kept_lib"
    )
}

/// Beginning of the step in which a number of seconds is.
fn step_of(seconds: &str, step_seconds: u32) -> String {
    format!("toDateTime(intDiv({seconds}, {step_seconds}) * {step_seconds}, 'UTC')")
}

fn micros(seconds: i64) -> String {
    time(Micros(seconds.saturating_mul(1_000_000)))
}
