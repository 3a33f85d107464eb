//! Numbers of events by project, time, name and SDK, and of rejected events by code.
//!
//! `project_stats` has sums of minutes, hours and days, written by one process at a time. A time
//! may be counted again, whatever was cut off before: of each project and step the rows of the last
//! count are read. The same table says how far each kind is counted, in rows of no project.
//!
//! | Module | Holds |
//! |---|---|
//! | `count` | counts the rows of a time, and sums minutes to hours and days |
//! | `read` | reads sums, by what they are grouped |
//! | `largest` | the projects with most events of late |

mod count;
mod largest;
mod read;

pub use count::StatsDetail;
pub use largest::LargestProject;
pub use read::{StatsGrouping, StatsQuery, StatsRow};

use crate::dialect::Dialect;
use crate::nonce::Nonce;
use crate::settings::quoted_text;
use crate::{ClickHouse, QueryError};
use millrace_rows::Micros;
use serde::Deserialize;
use std::ops::Range;

/// Table of the sums.
pub(crate) const STATS: &str = "project_stats";
/// Seconds of a minute: the shortest step of sums.
pub const MINUTE_SECONDS: u32 = 60;
/// Seconds of an hour.
pub const HOUR_SECONDS: u32 = 3_600;
/// Seconds of a day.
pub const DAY_SECONDS: u32 = 86_400;
/// Columns of the table, in their order.
const COLUMNS: &str =
    "team_id, step_seconds, at, code, event, sdk, events, historical, bytes, counted_at";
/// Name of the row that has the time at which counting began.
const SINCE: &str = "since";

/// Kind of the events that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsKind {
    /// Accepted events, by the time at which they were made rows.
    Accepted,
    /// Rejected events, by the time of receipt.
    Rejected,
}

impl StatsKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Accepted, Self::Rejected];

    /// Name of the row that says how far the kind is counted.
    const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
        }
    }

    /// Condition on the rows of the kind: only rejected events have a code.
    const fn condition(self) -> &'static str {
        match self {
            Self::Accepted => "code = ''",
            Self::Rejected => "code != ''",
        }
    }
}

/// Times, in seconds since 1970, before which events are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatsProgress {
    /// Time from which events are counted.
    pub since: i64,
    /// Time before which all accepted events are counted, from then on.
    pub accepted: i64,
    /// Time before which all rejected events are.
    pub rejected: i64,
}

impl StatsProgress {
    /// Time before which the events of a kind are counted.
    #[must_use]
    pub const fn of(&self, kind: StatsKind) -> i64 {
        match kind {
            StatsKind::Accepted => self.accepted,
            StatsKind::Rejected => self.rejected,
        }
    }
}

/// Progress as it is stored; times are 0 if they are not.
#[derive(clickhouse::Row, Deserialize)]
struct StoredProgress {
    nonce: String,
    since: u64,
    accepted: u64,
    rejected: u64,
}

/// Statement that creates the table. Minutes and hours are kept for longer than they are offered,
/// so that a process that was away finds what it has to sum.
pub(crate) fn create(dialect: &Dialect) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {head} (\
         team_id Int64, \
         step_seconds UInt32, \
         at DateTime('UTC') CODEC(Delta(4), ZSTD(1)), \
         code LowCardinality(String), \
         event String CODEC(ZSTD(1)), \
         sdk String CODEC(ZSTD(1)), \
         events UInt64 CODEC(ZSTD(1)), \
         historical UInt64 CODEC(ZSTD(1)), \
         bytes UInt64 CODEC(ZSTD(1)), \
         counted_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1))\
         ) ENGINE = {engine} \
         PARTITION BY (step_seconds, toYYYYMM(at)) \
         ORDER BY (team_id, step_seconds, at, code, event, sdk) \
         TTL at + INTERVAL 3 DAY DELETE WHERE step_seconds = {MINUTE_SECONDS}, \
         at + INTERVAL 40 DAY DELETE WHERE step_seconds = {HOUR_SECONDS}, \
         at + INTERVAL 732 DAY DELETE WHERE step_seconds = {DAY_SECONDS}\
         {settings}",
        head = dialect.local_head(STATS),
        engine = dialect.merge_tree("Replacing", STATS, Some("counted_at")),
        settings = dialect.durability(),
    )
}

impl ClickHouse {
    /// Asks how far events are counted; `None` if counting has not begun.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn stats_progress(&self) -> Result<Option<StatsProgress>, QueryError> {
        let max = |name: &str| format!("maxIf(events, code = {}) AS {name}", quoted_text(name));
        let sql = format!(
            "SELECT {}, {}, {} FROM {} WHERE team_id = 0 AND step_seconds = 0",
            max(SINCE),
            max(StatsKind::Accepted.name()),
            max(StatsKind::Rejected.name()),
            self.source_named(STATS),
        );
        let nonce = Nonce::new();
        let query = self.proving().query_raw(&nonce.put_into(&sql));
        let answer = self.seeing_quorum(query).fetch_one();
        let stored: StoredProgress = self.within_deadline(answer).await?;
        nonce.check(&stored.nonce)?;
        let seconds = |stored: u64| i64::try_from(stored).unwrap_or(i64::MAX);
        let is_begun = stored.since > 0 && stored.accepted > 0 && stored.rejected > 0;
        Ok(is_begun.then(|| StatsProgress {
            since: seconds(stored.since),
            accepted: seconds(stored.accepted),
            rejected: seconds(stored.rejected),
        }))
    }

    /// Records that counting begins: events before these times are not counted.
    ///
    /// # Errors
    /// If the server cannot be asked or refuses.
    pub async fn begin_stats(&self, at: &StatsProgress) -> Result<(), QueryError> {
        // Counting has begun once all three are there.
        let rows = StatsKind::ALL.map(|kind| progress_row(kind.name(), at.of(kind)));
        let rows = [progress_row(SINCE, at.since), rows.join(", ")];
        self.insert_stats(&format!("VALUES {}", rows.join(", ")), "")
            .await
    }

    /// Records that all events of a kind before a time are counted and summed.
    ///
    /// # Errors
    /// If the server cannot be asked or refuses.
    pub async fn advance_stats(&self, kind: StatsKind, until: i64) -> Result<(), QueryError> {
        let row = progress_row(kind.name(), until);
        self.insert_stats(&format!("VALUES {row}"), "").await
    }

    /// Inserts rows into the table, by VALUES or a SELECT. The answer proves to be ClickHouse's.
    async fn insert_stats(&self, rows: &str, settings: &str) -> Result<(), QueryError> {
        let sql = format!(
            "INSERT INTO {table} ({COLUMNS}) SETTINGS async_insert = 0{settings} {rows}",
            table = self.source_named(STATS),
        );
        self.execute_proven(&sql, &self.shared_settings()).await
    }
}

/// Row that says how far events are counted. Of its versions the furthest stays.
fn progress_row(name: &str, seconds: i64) -> String {
    let seconds = seconds.max(0);
    format!(
        "(0, 0, toDateTime(0, 'UTC'), {}, '', '', {seconds}, 0, 0, {})",
        quoted_text(name),
        time(Micros(seconds.saturating_mul(1_000_000))),
    )
}

/// Time as an expression.
fn time(at: Micros) -> String {
    format!("fromUnixTimestamp64Micro({}, 'UTC')", at.0)
}

/// Condition that a column is within a time; `literal` writes seconds as the column has them.
fn within(column: &str, seconds: &Range<i64>, literal: impl Fn(i64) -> String) -> String {
    let (start, end) = (literal(seconds.start), literal(seconds.end));
    format!("{column} >= {start} AND {column} < {end}")
}

/// Rows that meet a condition, of the last count of each project, step and kind: an earlier one may
/// have been cut off, or kept other names apart.
fn last_counted(table: &str, condition: &str) -> String {
    format!(
        "(SELECT * FROM (SELECT *, max(counted_at) OVER (PARTITION BY team_id, step_seconds, at, code = '') AS latest \
         FROM {table} FINAL WHERE team_id > 0 AND {condition}) WHERE counted_at = latest)"
    )
}

/// Condition that the beginning of a sum's step is within a time.
fn begins_within(seconds: &Range<i64>) -> String {
    within("at", seconds, |at| format!("toDateTime({at}, 'UTC')"))
}
