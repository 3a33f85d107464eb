//! Lists the keys of stored rows: of an insert that some shards have and others have not, the rows
//! that are missing are told from the others.

use crate::nonce::Nonce;
use crate::presence::WantedRows;
use crate::{ClickHouse, QueryError};
use millrace_rows::{Micros, Month, RowKey, Table};
use serde::Deserialize;
use uuid::Uuid;

/// Key of a stored row, with the nonce of the query.
#[derive(clickhouse::Row, Deserialize)]
struct StoredKey {
    nonce: String,
    /// Empty in the row that proves the answer.
    id: String,
    at: i64,
    nth: u32,
}

impl ClickHouse {
    /// Lists those of the `keys` that are in the table, each once. At most
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
    ) -> Result<Vec<RowKey>, QueryError> {
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
            found.extend(Uuid::parse_str(&row.id).map(|id| RowKey {
                id,
                received_at: Micros(row.at),
                index: wanted.has_index.then_some(row.nth),
            }));
        }
        Ok(found)
    }

    /// Returns a query whose answer has one more row, without an id: it proves the answer if no key
    /// is found.
    fn keys_query(&self, nonce: &Nonce, table: Table, wanted: &WantedRows) -> String {
        let (id_column, at_column) = table.key_columns();
        let nth = if wanted.has_index { "`index`" } else { "0" };
        format!(
            "SELECT DISTINCT '{nonce}' AS nonce, toString({id_column}) AS id, \
             toUnixTimestamp64Micro({at_column}) AS at, toUInt32({nth}) AS nth FROM {source} \
             WHERE {condition} UNION ALL SELECT '{nonce}', '', toInt64(0), toUInt32(0)",
            source = self.source(table),
            condition = wanted.condition,
        )
    }
}
