//! Groups of rejected events by their code, and events that were sent again already.

use crate::nonce::Nonce;
use crate::rejected_events::RESENT;
use crate::settings::quoted_text;
use crate::{ClickHouse, QueryError, RejectedEvent, RejectedFilter};
use serde::Deserialize;
use std::collections::HashSet;

/// Rejected events with one code.
#[derive(clickhouse::Row, Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct RejectedGroup {
    /// Reason of the rejection, for programs.
    pub code: String,
    /// Number of events.
    pub events: u64,
    /// Number of events that were not sent again.
    pub unsent: u64,
    /// Earliest time of receipt, in microseconds since 1970.
    pub first_received_at: i64,
    /// Latest time of receipt, in microseconds since 1970.
    pub last_received_at: i64,
    /// Id of the request of the newest event.
    pub request_id: String,
    /// Index of the newest event in its batch, from 0.
    pub index: u32,
    /// Reason of the rejection of the newest event, for people.
    pub detail: String,
}

/// Keys of events that were sent again, in the same order: one row, as an answer without any would
/// have no nonce.
#[derive(clickhouse::Row, Deserialize)]
struct ResentKeys {
    nonce: String,
    request_ids: Vec<String>,
    indexes: Vec<u32>,
}

impl ClickHouse {
    /// Groups the rejected events that match the filter by code, the largest group first, in at
    /// most its rows.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn rejected_groups(
        &self,
        filter: &RejectedFilter,
    ) -> Result<Vec<RejectedGroup>, QueryError> {
        let sql = format!(
            "SELECT code, events, unsent, first_received_at, last_received_at, newest.1 AS request_id, \
             newest.2 AS `index`, newest.3 AS detail FROM (\
             SELECT toString(r.code) AS code, count() AS events, countIf(s.sent_at = 0) AS unsent, \
             toUnixTimestamp64Micro(min(r.received_at)) AS first_received_at, \
             toUnixTimestamp64Micro(max(r.received_at)) AS last_received_at, \
             argMax((r.request_id, r.`index`, r.detail), (r.received_at, r.request_id, r.`index`)) AS newest \
             {from} GROUP BY r.code) ORDER BY events DESC, code LIMIT {rows_max} \
             SETTINGS join_use_nulls = 0, max_memory_usage = 1073741824{limit}",
            from = self.rejected_source(filter),
            rows_max = filter.rows_max,
            limit = filter.time_limit(),
        );
        let query = self.seeing_quorum(self.client().query_raw(&sql));
        self.within_deadline(query.fetch_all()).await
    }

    /// Tells of each of these events of a project whether it was sent again. At most some hundreds
    /// at a time, as a statement may have 256 KiB.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn are_resent(
        &self,
        project_id: i64,
        events: &[&RejectedEvent],
    ) -> Result<Vec<bool>, QueryError> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let key = |event: &&RejectedEvent| {
            let request_id = quoted_text(&event.request_id);
            format!("({request_id}, {})", event.index)
        };
        let keys: Vec<String> = events.iter().map(key).collect();
        let sql = format!(
            "SELECT groupArray(request_id) AS request_ids, groupArray(`index`) AS indexes FROM (\
             SELECT DISTINCT request_id, `index` FROM {resent} \
             WHERE team_id = {project_id} AND (request_id, `index`) IN ({keys}))",
            resent = self.source_named(RESENT),
            keys = keys.join(", "),
        );
        let nonce = Nonce::new();
        let query = self.proving().query_raw(&nonce.put_into(&sql));
        let answer = self.seeing_quorum(query).fetch_one();
        let found: ResentKeys = self.within_deadline(answer).await?;
        nonce.check(&found.nonce)?;
        let found: HashSet<_> = found.request_ids.into_iter().zip(found.indexes).collect();
        let is_resent =
            |event: &&RejectedEvent| found.contains(&(event.request_id.clone(), event.index));
        Ok(events.iter().map(is_resent).collect())
    }
}
