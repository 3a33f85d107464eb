//! Reading back events that were refused, for the operator's tools, and recording which of them were sent again.

use crate::settings::{quoted_name, quoted_text};
use crate::{ClickHouse, QueryError};
use millrace_rows::{Micros, Table};
use serde::Deserialize;
use std::collections::HashMap;

/// The table of what was sent again.
pub(crate) const RESENT: &str = "rejected_events_resent";
/// Rows of one insert: a statement may have 256 KiB.
const ROWS_OF_AN_INSERT: usize = 1_000;

/// Settings of statements that read `raw`, whose rows may have 100 MB each: few of them are in memory at once.
const FEW_AT_ONCE: &str = "max_memory_usage = 1073741824, max_threads = 1, max_block_size = 4, preferred_block_size_bytes = 1048576, \
     preferred_max_column_in_block_size_bytes = 1048576";

/// Which refused events are meant; all conditions have to hold.
#[derive(Clone, Debug, Default)]
pub struct RejectedFilter {
    /// Of this project.
    pub team_id: Option<i64>,
    /// Refused with this code.
    pub code: Option<String>,
    /// Received at this time or later.
    pub since: Option<Micros>,
    /// Sent in this request.
    pub request_id: Option<String>,
    /// At this place in its batch, from 0.
    pub index: Option<u32>,
    /// Not sent again since.
    pub unsent: bool,
    /// The most rows; the newest are kept.
    pub rows_max: u32,
}

/// One refused event, without its JSON: that may be large, see [`ClickHouse::rejected_raws`].
#[derive(clickhouse::Row, Clone, Debug, Deserialize)]
pub struct RejectedEvent {
    /// Whose it is.
    pub team_id: i64,
    /// When it was received, in microseconds since 1970.
    pub received_at: i64,
    /// The request it came in.
    pub request_id: String,
    /// Its place in the batch, from 0.
    pub index: u32,
    /// Why it was refused, for programs.
    pub code: String,
    /// Where in the request.
    pub attr: String,
    /// Why it was refused, for people.
    pub detail: String,
    /// Whether it was part of a historical migration.
    pub historical_migration: bool,
    /// When an operator last sent it again and it was accepted, in microseconds since 1970; 0 if none did.
    pub resent_at: i64,
}

impl RejectedEvent {
    fn key(&self) -> (i64, i64, String, u32) {
        let request_id = self.request_id.clone();
        (self.team_id, self.received_at, request_id, self.index)
    }
}

/// Size of the JSON of the event with this key, and what was read of it.
#[derive(clickhouse::Row, Deserialize)]
struct Found {
    team_id: i64,
    received_at: i64,
    request_id: String,
    index: u32,
    bytes: u64,
    raw: String,
}

impl ClickHouse {
    /// The refused events that the filter lets through, oldest first.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn rejected(
        &self,
        filter: &RejectedFilter,
    ) -> Result<Vec<RejectedEvent>, QueryError> {
        let sql = self.rejected_question(filter);
        let mut rows: Vec<RejectedEvent> = self
            .within_deadline(self.client.query_raw(&sql).fetch_all())
            .await?;
        rows.reverse();
        Ok(rows)
    }

    /// Bytes of the JSON of each of these events; 0 of those that are gone. A statement has 256 KiB: some hundreds at a time.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn rejected_sizes(&self, events: &[&RejectedEvent]) -> Result<Vec<u64>, QueryError> {
        let found = self.of_rejected(events, "''").await?;
        Ok(found.into_iter().map(|(bytes, _)| bytes).collect())
    }

    /// The JSON of each of these events as it was sent, of no more than the first `bytes_max` bytes; empty of those that are
    /// gone. They are in memory together: see [`Self::rejected_sizes`].
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
        let rows: Vec<Found> = self
            .within_deadline(self.client.query_raw(&sql).fetch_all())
            .await?;
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

    /// Counts the refused events that the filter lets through, without a limit on rows.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn rejected_count(&self, filter: &RejectedFilter) -> Result<u64, QueryError> {
        let from = self.rejected_source(filter);
        self.fetch_u64(&format!(
            "SELECT count() {from} SETTINGS join_use_nulls = 0"
        ))
        .await
    }

    /// Records that events were sent again now, and accepted.
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
            self.execute(&format!(
                "INSERT INTO {}.{} (team_id, received_at, request_id, `index`, resent_at) \
                 SETTINGS async_insert = 0 VALUES {}",
                quoted_name(&self.settings.database),
                quoted_name(RESENT),
                rows.join(", ")
            ))
            .await?;
        }
        Ok(())
    }

    fn rejected_question(&self, filter: &RejectedFilter) -> String {
        format!(
            "SELECT r.team_id AS team_id, toUnixTimestamp64Micro(r.received_at) AS received_at, \
             r.request_id AS request_id, r.`index` AS `index`, toString(r.code) AS code, r.attr AS attr, \
             r.detail AS detail, r.historical_migration AS historical_migration, s.sent_at AS resent_at \
             {from} ORDER BY r.received_at DESC, r.request_id DESC, r.`index` DESC LIMIT {rows_max} \
             SETTINGS join_use_nulls = 0, max_memory_usage = 1073741824",
            from = self.rejected_source(filter),
            rows_max = filter.rows_max,
        )
    }

    /// Names the rows that the filter lets through as `r`, each beside when it was sent again, in `s`.
    fn rejected_source(&self, filter: &RejectedFilter) -> String {
        let of_team = filter.team_id.map(|id| format!("team_id = {id}"));
        let conditions = [
            of_team.as_ref().map(|condition| format!("r.{condition}")),
            filter
                .code
                .as_deref()
                .map(|code| format!("r.code = {}", quoted_text(code))),
            filter
                .since
                .map(|at| format!("r.received_at >= fromUnixTimestamp64Micro({}, 'UTC')", at.0)),
            filter
                .request_id
                .as_deref()
                .map(|id| format!("r.request_id = {}", quoted_text(id))),
            filter.index.map(|index| format!("r.`index` = {index}")),
            filter.unsent.then(|| "s.sent_at = 0".to_owned()),
        ];
        let conditions: Vec<String> = std::iter::once("1".to_owned())
            .chain(conditions.into_iter().flatten())
            .collect();
        format!(
            "FROM {table} AS r LEFT JOIN (\
             SELECT team_id, request_id, `index`, max(toUnixTimestamp64Micro(resent_at)) AS sent_at FROM {resent} \
             WHERE {of_team} GROUP BY team_id, request_id, `index`) AS s \
             ON r.team_id = s.team_id AND r.request_id = s.request_id AND r.`index` = s.`index` \
             WHERE {conditions}",
            table = self.source(Table::RejectedEvents),
            resent = self.source_named(RESENT),
            of_team = of_team.as_deref().unwrap_or("1"),
            conditions = conditions.join(" AND "),
        )
    }
}
