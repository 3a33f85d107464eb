//! Reading back events that were refused, for the operator's tools, and recording which of them were sent again.

use crate::settings::{quoted_name, quoted_text};
use crate::{ClickHouse, QueryError};
use millrace_rows::{Micros, Table};
use serde::Deserialize;

/// The table of what was sent again.
pub(crate) const RESENT: &str = "rejected_events_resent";
/// Rows of one insert: a statement may have 256 KiB.
const ROWS_OF_AN_INSERT: usize = 1_000;

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

/// One refused event.
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
    /// The event's JSON as it was sent.
    pub raw: String,
    /// Whether it was part of a historical migration.
    pub historical_migration: bool,
    /// When an operator last sent it again and it was accepted, in microseconds since 1970; 0 if none did.
    pub resent_at: i64,
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
            "SELECT r.team_id AS team_id, toUnixTimestamp64Micro(r.received_at) AS received_at, \
             r.request_id AS request_id, r.`index` AS `index`, toString(r.code) AS code, r.attr AS attr, \
             r.detail AS detail, r.raw AS raw, r.historical_migration AS historical_migration, s.sent_at AS resent_at \
             FROM {table} AS r LEFT JOIN (\
             SELECT team_id, request_id, `index`, max(toUnixTimestamp64Micro(resent_at)) AS sent_at FROM {resent} \
             WHERE {of_team} GROUP BY team_id, request_id, `index`) AS s \
             ON r.team_id = s.team_id AND r.request_id = s.request_id AND r.`index` = s.`index` \
             WHERE {conditions} \
             ORDER BY r.received_at DESC, r.request_id DESC, r.`index` DESC LIMIT {rows_max} \
             SETTINGS join_use_nulls = 0",
            table = self.source(Table::RejectedEvents),
            resent = self.source_named(RESENT),
            of_team = of_team.as_deref().unwrap_or("1"),
            conditions = conditions.join(" AND "),
            rows_max = filter.rows_max,
        )
    }
}
