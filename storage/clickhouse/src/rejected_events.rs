//! Reads rejected events for the operator's tools and the API, and records those that were sent
//! again.

use crate::settings::{quoted_name, quoted_text};
use crate::{ClickHouse, QueryError, QueryErrorKind, RejectedFilter};
use millrace_rows::{Micros, Table};
use serde::Deserialize;
use std::collections::HashMap;

/// Table of the rejected events that were sent again.
pub(crate) const RESENT: &str = "rejected_events_resent";
/// Most rows of one insert: a statement may have 256 KiB.
const ROWS_OF_AN_INSERT: usize = 1_000;

/// Settings of statements that read `raw`, whose rows may have 100 MB each: few of them are in
/// memory at once.
const FEW_AT_ONCE: &str = "max_memory_usage = 1073741824, max_threads = 1, max_block_size = 4, preferred_block_size_bytes = 1048576, \
     preferred_max_column_in_block_size_bytes = 1048576";

/// One rejected event, without its JSON: that may be large, see [`ClickHouse::rejected_raws`].
#[derive(clickhouse::Row, Clone, Debug, Deserialize)]
pub struct RejectedEvent {
    /// Project of the event.
    pub team_id: i64,
    /// Time of receipt, in microseconds since 1970.
    pub received_at: i64,
    /// Id of the request.
    pub request_id: String,
    /// Index in the batch, from 0.
    pub index: u32,
    /// Reason of the rejection, for programs.
    pub code: String,
    /// Part of the event that is at fault.
    pub attr: String,
    /// Reason of the rejection, for people.
    pub detail: String,
    /// True if the event was part of a historical migration.
    pub historical_migration: bool,
    /// Time when somebody last sent the event again and it was accepted, in microseconds since
    /// 1970; 0 if nobody did.
    pub resent_at: i64,
}

impl RejectedEvent {
    fn key(&self) -> (i64, i64, String, u32) {
        let request_id = self.request_id.clone();
        (self.team_id, self.received_at, request_id, self.index)
    }
}

/// Number of rejected events of one project with one code.
#[derive(clickhouse::Row, Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct RejectedCount {
    /// Project of the events.
    pub team_id: i64,
    /// Reason of the rejection, for programs.
    pub code: String,
    /// Number of events.
    pub events: u64,
}

/// Size of the JSON of the event with this key, and the JSON as far as it was read.
#[derive(clickhouse::Row, Deserialize)]
struct RawEvent {
    team_id: i64,
    received_at: i64,
    request_id: String,
    index: u32,
    bytes: u64,
    raw: String,
}

impl ClickHouse {
    /// Lists the rejected events that match the filter, oldest first.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn rejected(
        &self,
        filter: &RejectedFilter,
    ) -> Result<Vec<RejectedEvent>, QueryError> {
        let sql = self.rejected_query(filter);
        let query = self.seeing_quorum(self.client().query_raw(&sql));
        let mut rows: Vec<RejectedEvent> = self.within_deadline(query.fetch_all()).await?;
        rows.reverse();
        Ok(rows)
    }

    /// Returns the bytes of the JSON of each of these events; 0 for those that are gone. At most
    /// some hundreds at a time, as a statement may have 256 KiB.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn rejected_sizes(&self, events: &[&RejectedEvent]) -> Result<Vec<u64>, QueryError> {
        let found = self.of_rejected(events, "''").await?;
        Ok(found.into_iter().map(|(bytes, _)| bytes).collect())
    }

    /// Returns the JSON of each of these events as it was sent, up to the first `bytes_max` bytes;
    /// empty for those that are gone. All are in memory together: see [`Self::rejected_sizes`].
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn rejected_raws(
        &self,
        events: &[&RejectedEvent],
        bytes_max: u64,
    ) -> Result<Vec<String>, QueryError> {
        // The cut may be in the midst of a character.
        let raw = format!(
            "if(length(raw) <= {bytes_max}, raw, toValidUTF8(substring(raw, 1, {bytes_max})))"
        );
        let found = self.of_rejected(events, &raw).await?;
        Ok(found.into_iter().map(|(_, raw)| raw).collect())
    }

    /// Reads the size of the JSON of each of these events, and `raw`, in their order.
    async fn of_rejected(
        &self,
        events: &[&RejectedEvent],
        raw: &str,
    ) -> Result<Vec<(u64, String)>, QueryError> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<String> = events
            .iter()
            .map(|event| {
                format!(
                    "({}, fromUnixTimestamp64Micro({}, 'UTC'), {}, {})",
                    event.team_id,
                    event.received_at,
                    quoted_text(&event.request_id),
                    event.index
                )
            })
            .collect();
        let sql = format!(
            "SELECT team_id, at, request_id, `index`, toUInt64(length(raw)) AS bytes, {raw} FROM (\
             SELECT team_id, toUnixTimestamp64Micro(received_at) AS at, request_id, `index`, raw FROM {table} \
             WHERE (team_id, received_at, request_id, `index`) IN ({keys})) SETTINGS {FEW_AT_ONCE}",
            table = self.source(Table::RejectedEvents),
            keys = keys.join(", "),
        );
        let query = self.seeing_quorum(self.client().query_raw(&sql));
        let rows: Vec<RawEvent> = self.within_deadline(query.fetch_all()).await?;
        let found: HashMap<_, _> = rows
            .into_iter()
            .map(|row| {
                let key = (row.team_id, row.received_at, row.request_id, row.index);
                (key, (row.bytes, row.raw))
            })
            .collect();
        let found = events.iter().map(|event| found.get(&event.key()).cloned());
        Ok(found.map(Option::unwrap_or_default).collect())
    }

    /// Counts the rejected events that match the filter, without a limit on rows.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn rejected_count(&self, filter: &RejectedFilter) -> Result<u64, QueryError> {
        let (from, limit) = (self.rejected_source(filter), filter.time_limit());
        self.fetch_u64(&format!(
            "SELECT count() {from} SETTINGS join_use_nulls = 0{limit}"
        ))
        .await
    }

    /// Counts the rejected events that match the filter by project and code, the most first, in at
    /// most its rows.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn rejected_counts(
        &self,
        filter: &RejectedFilter,
    ) -> Result<Vec<RejectedCount>, QueryError> {
        let sql = format!(
            "SELECT r.team_id AS team_id, toString(r.code) AS code, count() AS events {from} \
             GROUP BY r.team_id, r.code ORDER BY events DESC, r.team_id, r.code LIMIT {rows_max} \
             SETTINGS join_use_nulls = 0, max_memory_usage = 1073741824{limit}",
            from = self.rejected_source(filter),
            rows_max = filter.rows_max,
            limit = filter.time_limit(),
        );
        let query = self.seeing_quorum(self.client().query_raw(&sql));
        self.within_deadline(query.fetch_all()).await
    }

    /// Records that events were sent again, and accepted, at the time `now`.
    ///
    /// # Errors
    /// If the server cannot be asked or refuses; recording them again does no harm.
    pub async fn record_resent(
        &self,
        events: &[RejectedEvent],
        now: Micros,
    ) -> Result<(), QueryError> {
        for piece in events.chunks(ROWS_OF_AN_INSERT) {
            let rows: Vec<String> = piece
                .iter()
                .map(|event| {
                    format!(
                        "({}, fromUnixTimestamp64Micro({}, 'UTC'), {}, {}, fromUnixTimestamp64Micro({}, 'UTC'))",
                        event.team_id,
                        event.received_at,
                        quoted_text(&event.request_id),
                        event.index,
                        now.0
                    )
                })
                .collect();
            let sql = format!(
                "INSERT INTO {}.{} (team_id, received_at, request_id, `index`, resent_at) \
                 SETTINGS async_insert = 0 VALUES {}",
                quoted_name(&self.settings.database),
                quoted_name(RESENT),
                rows.join(", ")
            );
            let settings = self.shared_settings();
            let recorded = self.execute_proven(&sql, &settings).await;
            // A gateway may strip ClickHouse's headers, on every try.
            if let Err(error) = recorded
                && (error.kind != QueryErrorKind::NotClickHouse
                    || !self.are_recorded(piece, now).await?)
            {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns true if all of the events are recorded as sent again at the time `now`.
    async fn are_recorded(
        &self,
        events: &[RejectedEvent],
        now: Micros,
    ) -> Result<bool, QueryError> {
        let key = |event: &RejectedEvent| {
            let request_id = quoted_text(&event.request_id);
            format!("({}, {request_id}, {})", event.team_id, event.index)
        };
        let mut keys: Vec<String> = events.iter().map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        let sql = format!(
            "SELECT uniqExact(team_id, request_id, `index`) FROM {} \
             WHERE resent_at = fromUnixTimestamp64Micro({}, 'UTC') \
             AND (team_id, request_id, `index`) IN ({})",
            self.source_named(RESENT),
            now.0,
            keys.join(", ")
        );
        Ok(self.fetch_u64(&sql).await? == keys.len() as u64)
    }

    fn rejected_query(&self, filter: &RejectedFilter) -> String {
        let order = "ORDER BY r.received_at DESC, r.request_id DESC, r.`index` DESC";
        let (rows_max, skipped) = (filter.rows_max, filter.rows_skipped);
        let cut = format!("{order} LIMIT {rows_max} OFFSET {skipped}");
        let from = if filter.unsent {
            format!("{} {cut}", self.rejected_source(filter))
        } else {
            // Cut before they are joined: few of many rows are read whole.
            let rows = format!(
                "(SELECT team_id, received_at, request_id, `index`, code, attr, detail, historical_migration \
                 FROM {table} AS r WHERE {conditions} {cut})",
                table = self.source(Table::RejectedEvents),
                conditions = filter.conditions().join(" AND "),
            );
            format!("{} {order}", self.joined_with_resent(&rows, filter))
        };
        format!(
            "SELECT r.team_id AS team_id, toUnixTimestamp64Micro(r.received_at) AS received_at, \
             r.request_id AS request_id, r.`index` AS `index`, toString(r.code) AS code, r.attr AS attr, \
             r.detail AS detail, r.historical_migration AS historical_migration, s.sent_at AS resent_at \
             {from} SETTINGS join_use_nulls = 0, max_memory_usage = 1073741824{limit}",
            limit = filter.time_limit(),
        )
    }

    /// Returns a FROM of the rows that match the filter as `r`, joined with the time they were sent
    /// again in `s`.
    pub(crate) fn rejected_source(&self, filter: &RejectedFilter) -> String {
        let mut conditions = filter.conditions();
        if filter.unsent {
            conditions.push("s.sent_at = 0".to_owned());
        }
        let rows = self.source(Table::RejectedEvents);
        let joined = self.joined_with_resent(&rows, filter);
        format!("{joined} WHERE {}", conditions.join(" AND "))
    }

    /// Returns a FROM of rows as `r`, joined with the time they were sent again in `s`.
    fn joined_with_resent(&self, rows: &str, filter: &RejectedFilter) -> String {
        let of_project = filter.project_id.map(|id| format!("team_id = {id}"));
        format!(
            "FROM {rows} AS r LEFT JOIN (\
             SELECT team_id, request_id, `index`, max(toUnixTimestamp64Micro(resent_at)) AS sent_at FROM {resent} \
             WHERE {of_project} GROUP BY team_id, request_id, `index`) AS s \
             ON r.team_id = s.team_id AND r.request_id = s.request_id AND r.`index` = s.`index`",
            resent = self.source_named(RESENT),
            of_project = of_project.as_deref().unwrap_or("1"),
        )
    }
}
