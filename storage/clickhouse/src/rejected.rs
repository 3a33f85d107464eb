//! Reading back events that were refused, for the operator's tools.

use crate::settings::quoted_text;
use crate::{ClickHouse, QueryError};
use millrace_rows::{Micros, Table};
use serde::Deserialize;

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

    fn rejected_question(&self, filter: &RejectedFilter) -> String {
        let conditions = [
            filter.team_id.map(|id| format!("team_id = {id}")),
            filter
                .code
                .as_deref()
                .map(|code| format!("code = {}", quoted_text(code))),
            filter
                .since
                .map(|at| format!("received_at >= fromUnixTimestamp64Micro({}, 'UTC')", at.0)),
            filter
                .request_id
                .as_deref()
                .map(|id| format!("request_id = {}", quoted_text(id))),
            filter.index.map(|index| format!("`index` = {index}")),
        ];
        let conditions: Vec<String> = std::iter::once("1".to_owned())
            .chain(conditions.into_iter().flatten())
            .collect();
        format!(
            "SELECT team_id, toUnixTimestamp64Micro(received_at) AS received_at, request_id, `index`, \
             toString(code) AS code, attr, detail, raw, historical_migration \
             FROM {table} AS r WHERE {conditions} \
             ORDER BY r.received_at DESC, request_id DESC, `index` DESC LIMIT {rows_max}",
            table = self.source(Table::RejectedEvents),
            conditions = conditions
                .join(" AND ")
                .replace("received_at", "r.received_at"),
            rows_max = filter.rows_max,
        )
    }
}
