//! Lists the keys of stored rows: of an insert that some shards have and others have not, the rows
//! that are missing are told from the others.

use crate::dialect::Dialect;
use crate::nonce::Nonce;
use crate::settings::quoted_text;
use crate::wanted_rows::WantedRows;
use crate::{ClickHouse, QueryError};
use millrace_rows::{Micros, Month, RowKey, Table};
use serde::Deserialize;
use std::hash::{DefaultHasher, Hash, Hasher};
use uuid::Uuid;

/// Key of a row, with what tells its shard: rows that share a key may be on several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlacedKey {
    /// Key of the row.
    pub key: RowKey,
    /// Hash of the distinct id; `None` if it is not known, or the key alone tells the shard.
    pub place: Option<u64>,
}

/// Key of a stored row, with the nonce of the query.
#[derive(clickhouse::Row, Deserialize)]
struct StoredKey {
    nonce: String,
    /// Empty in the row that proves the answer.
    id: String,
    at: i64,
    nth: u32,
    /// Empty if the key alone tells the shard.
    place: String,
}

// === impl PlacedKey ===

impl PlacedKey {
    /// Returns the place of rows with a distinct id.
    #[must_use]
    pub fn place_of(distinct_id: &[u8]) -> u64 {
        let mut hasher = DefaultHasher::new();
        distinct_id.hash(&mut hasher);
        hasher.finish()
    }

    /// Forgets the place.
    #[must_use]
    pub const fn without_place(self) -> Self {
        Self {
            place: None,
            ..self
        }
    }
}

impl From<RowKey> for PlacedKey {
    fn from(key: RowKey) -> Self {
        Self { key, place: None }
    }
}

// === impl ClickHouse ===

impl ClickHouse {
    /// Lists those of the `keys` that are in the table, at least once for each distinct id. At most
    /// [`PRESENCE_KEYS_MAX`](crate::PRESENCE_KEYS_MAX).
    ///
    /// # Errors
    /// If the server, or one of the shards, cannot be asked. An empty `keys` is answered without a
    /// query.
    pub async fn present_keys(
        &self,
        table: Table,
        month: Month,
        keys: &[RowKey],
    ) -> Result<Vec<PlacedKey>, QueryError> {
        let nonce = Nonce::new();
        let Some(wanted) = WantedRows::of(table, month, keys) else {
            return Ok(Vec::new());
        };
        let sql = self.keys_query(&nonce, table, &wanted);
        let answer = self.long_query(&sql).fetch_all();
        let stored: Vec<StoredKey> = self.within_deadline(answer).await?;
        // Without any row nothing was answered.
        let answered = stored.last().map_or("", |row| row.nonce.as_str());
        nonce.check(answered)?;
        let mut found = Vec::with_capacity(stored.len());
        for row in &stored {
            nonce.check(&row.nonce)?;
            found.extend(Uuid::parse_str(&row.id).map(|id| PlacedKey {
                key: RowKey {
                    id,
                    received_at: Micros(row.at),
                    index: wanted.has_index.then_some(row.nth),
                },
                place: has_place(table).then(|| PlacedKey::place_of(row.place.as_bytes())),
            }));
        }
        Ok(found)
    }

    /// Returns a query whose answer has one more row, without an id: it proves the answer if no key
    /// is found.
    fn keys_query(&self, nonce: &Nonce, table: Table, wanted: &WantedRows) -> String {
        let (id_column, at_column) = table.key_columns();
        let nth = if wanted.has_index { "`index`" } else { "0" };
        let distinct_id = match has_place(table) {
            true => "toString(distinct_id)",
            false => "''",
        };
        let select = |source: &str| {
            format!(
                "SELECT DISTINCT '{nonce}' AS nonce, toString({id_column}) AS id, \
                 toUnixTimestamp64Micro({at_column}) AS at, toUInt32({nth}) AS nth, \
                 {distinct_id} AS place FROM {source} WHERE {condition}",
                condition = wanted.condition,
            )
        };
        let mut sql = select(&self.source(table));
        if let Some(replicas) = self.on_every_replica(table) {
            // The SELECT before it asks one replica of each shard at least.
            let select = select(&replicas);
            let others =
                format!(" UNION ALL SELECT * FROM ({select} SETTINGS skip_unavailable_shards = 1)");
            sql.push_str(&others);
        }
        sql.push_str(&format!(
            " UNION ALL SELECT '{nonce}', '', toInt64(0), toUInt32(0), ''"
        ));
        sql
    }

    /// Table expression of a table of all replicas, if one may lack rows that another has.
    fn on_every_replica(&self, table: Table) -> Option<String> {
        let settings = &self.settings;
        let cluster = settings
            .sharded()
            .filter(|_| settings.replicas_may_be_behind())?;
        let local = self.source_named(&Dialect::of(settings).local(table.name()));
        Some(format!(
            "clusterAllReplicas({}, {local})",
            quoted_text(cluster)
        ))
    }
}

/// Returns true if rows of one key may be on several shards, which their distinct ids tell;
/// rejected events are spread by the id in their key.
const fn has_place(table: Table) -> bool {
    match table {
        Table::Events | Table::PersonUpdates => true,
        Table::RejectedEvents => false,
    }
}
