//! Looks up events that may have been replaced by later ones.
//!
//! A client may send an event again. Of rows with one sorting key, `events` keeps the one with the
//! latest `created_at`, and a merge drops the others: a row that was stored is not found any more
//! by its [`RowKey`](millrace_rows::RowKey).

use crate::nonce::Nonce;
use crate::wanted_rows::instant;
use crate::{ClickHouse, QueryError};
use millrace_rows::{Micros, Month, ProjectId, Table};
use serde::Deserialize;
use std::collections::HashMap;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use uuid::Uuid;

const DAY_MICROS: i64 = 86_400_000_000;

/// Identity of an event: what the sorting key of `events` has of it. Project and uuid are as they
/// are, since a client chooses the others; day, name and distinct id are a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventIdentity {
    project_id: ProjectId,
    uuid: Uuid,
    others: u64,
}

/// Event of which the table keeps the latest version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventVersion {
    /// Identity that all versions share.
    pub identity: EventIdentity,
    /// Time of receipt, by which the latest version is found.
    pub created_at: Micros,
}

/// Event as it is stored, with the nonce of the query.
#[derive(clickhouse::Row, Deserialize)]
struct StoredEvent {
    nonce: String,
    team_id: i64,
    #[serde(with = "clickhouse::serde::uuid")]
    uuid: Uuid,
    day: i64,
    event: String,
    distinct_id: String,
    at: i64,
}

impl EventIdentity {
    /// The identity of an event.
    #[must_use]
    pub fn new(
        project_id: ProjectId,
        uuid: Uuid,
        timestamp: Micros,
        name: &[u8],
        distinct_id: &[u8],
    ) -> Self {
        let day = timestamp.0 / DAY_MICROS;
        Self::of_day((project_id, uuid), day, name, distinct_id)
    }

    fn of_day(
        (project_id, uuid): (ProjectId, Uuid),
        day: i64,
        name: &[u8],
        distinct_id: &[u8],
    ) -> Self {
        let mut hasher = DefaultHasher::new();
        (day, name, distinct_id).hash(&mut hasher);
        Self {
            project_id,
            uuid,
            others: hasher.finish(),
        }
    }
}

impl StoredEvent {
    fn identity(&self) -> EventIdentity {
        let key = (ProjectId(self.team_id), self.uuid);
        let (name, distinct_id) = (self.event.as_bytes(), self.distinct_id.as_bytes());
        EventIdentity::of_day(key, self.day, name, distinct_id)
    }
}

impl ClickHouse {
    /// Returns true if each of the events is stored in `month`, in this version or in a later one,
    /// which replaces it. At most [`PRESENCE_KEYS_MAX`](crate::PRESENCE_KEYS_MAX).
    ///
    /// # Errors
    /// If the server cannot be asked. An empty `events` is answered with `true`, without a query.
    pub async fn are_stored_or_replaced(
        &self,
        month: Month,
        events: &[EventVersion],
    ) -> Result<bool, QueryError> {
        let nonce = Nonce::new();
        let Some(sql) = self.versions_query(&nonce, month, events) else {
            return Ok(true);
        };
        let mut wanted = HashMap::<EventIdentity, Micros>::new();
        for event in events {
            let latest = wanted.entry(event.identity).or_insert(event.created_at);
            *latest = event.created_at.max(*latest);
        }
        let read = async {
            let mut stored = self.long_query(&sql).fetch::<StoredEvent>()?;
            let mut answered = String::new();
            // A client may have stored any number of versions, and of other events of these uuids.
            // What is left of them once all are found is not read.
            while !wanted.is_empty()
                && let Some(event) = stored.next().await?
            {
                nonce.check(&event.nonce)?;
                let identity = event.identity();
                if wanted.get(&identity).is_some_and(|at| at.0 <= event.at) {
                    wanted.remove(&identity);
                }
                answered = event.nonce;
            }
            // Without any row nothing was answered.
            nonce.check(&answered)?;
            Ok::<_, clickhouse::error::Error>(wanted.is_empty())
        };
        self.within_deadline(read).await
    }

    /// Returns a query whose answer has one more row, of a project that nobody has: it proves the
    /// answer if no event is found.
    fn versions_query(
        &self,
        nonce: &Nonce,
        month: Month,
        events: &[EventVersion],
    ) -> Option<String> {
        let from = events.iter().map(|event| event.created_at.0).min()?;
        let mut wanted = String::with_capacity(events.len() * 64);
        for EventVersion { identity, .. } in events {
            let comma = if wanted.is_empty() { "" } else { "," };
            // Writing to a String cannot fail.
            let _ = write!(
                wanted,
                "{comma}({},'{}')",
                identity.project_id.0, identity.uuid
            );
        }
        Some(format!(
            "SELECT '{nonce}' AS nonce, team_id, uuid, \
             toInt64(intDiv(toUnixTimestamp64Micro(timestamp), {DAY_MICROS})) AS day, \
             event, distinct_id, toUnixTimestamp64Micro(created_at) AS at FROM {table} \
             WHERE toYYYYMM(timestamp) = {month} AND created_at >= {from} \
             AND (team_id, uuid) IN ({wanted}) \
             UNION ALL SELECT '{nonce}', toInt64(0), toUUID('{nobody}'), toInt64(0), \
             toLowCardinality(''), '', toInt64(0)",
            table = self.source(Table::Events),
            from = instant(from),
            nobody = Uuid::nil(),
        ))
    }
}
