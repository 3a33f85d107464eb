//! Looks up stored rows, running inserts, and restarts of the server.
//!
//! An insert is one block, and a block is stored whole or not at all: one row found is enough. If
//! the block may have been sent by halves, all of its rows are counted.
//!
//! These queries settle an insert whose answer was lost. A token alone does not: a plain MergeTree
//! records the token before the part gets its name, so that after a crash between the two a retry
//! under the same token is taken for a duplicate of rows that are lost.
//!
//! Each answer has to repeat the nonce of its query, so that a gateway's old answer counts for
//! nothing.

use crate::nonce::Nonce;
use crate::settings::{quoted_name, quoted_text};
use crate::{ClickHouse, QueryError};
use clickhouse::query::Query;
use millrace_rows::{Month, RowKey, Table};
use std::fmt::Write;
use uuid::Uuid;

/// Most keys of one call of [`ClickHouse::count_present`].
pub const PRESENCE_KEYS_MAX: usize = 8_192;

/// Settings of a query with so many keys, which lift the limits on its length.
const LONG_QUERY: [(&str, &str); 2] = [
    ("max_query_size", "4194304"),
    ("max_ast_elements", "1000000"),
];

/// Counts of rows that were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PresenceCount {
    /// Number of keys with at least one row.
    pub keys: u64,
    /// Number of rows with these keys.
    pub rows: u64,
}

impl ClickHouse {
    /// Returns true if at least one of the rows with `keys` is in the table. A block is stored
    /// whole or not at all, so one row found means that all are stored.
    ///
    /// Only the parts of `month` whose times of receipt can match are read.
    ///
    /// # Errors
    /// If the server cannot be asked. An empty `keys` is answered with `false`, without a query.
    pub async fn any_present(
        &self,
        table: Table,
        month: Month,
        keys: &[RowKey],
    ) -> Result<bool, QueryError> {
        let Some(sql) = self.presence_query(table, month, keys) else {
            return Ok(false);
        };
        Ok(self.fetch_u64(&sql).await? > 0)
    }

    /// Counts the `keys` that are in the table, and their rows. The keys must be distinct, and at
    /// most [`PRESENCE_KEYS_MAX`].
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn count_present(
        &self,
        table: Table,
        month: Month,
        keys: &[RowKey],
    ) -> Result<PresenceCount, QueryError> {
        let Some(sql) = self.count_query(table, month, keys) else {
            return Ok(PresenceCount::default());
        };
        let nonce = Nonce::new();
        let answer = self.long_query(&nonce.put_into(&sql)).fetch_one();
        let (answered, keys, rows): (String, u64, u64) = self.within_deadline(answer).await?;
        nonce.check(&answered)?;
        Ok(PresenceCount { keys, rows })
    }

    /// Makes a query with many keys that sees all stored rows.
    pub(crate) fn long_query(&self, sql: &str) -> Query {
        let mut query = self.proving().query_raw(sql);
        for (name, value) in LONG_QUERY {
            query = query.with_setting(name, value);
        }
        self.seeing_quorum(query)
    }

    /// Returns a query with the keys as plain literals, of which a server parses many at once.
    fn count_query(&self, table: Table, month: Month, keys: &[RowKey]) -> Option<String> {
        let has_index = has_index(table, keys);
        let index_column = if has_index { ", `index`" } else { "" };
        let (id_column, at_column) = table.key_columns();
        let key_columns = format!("{id_column}, toUnixTimestamp64Micro({at_column}){index_column}");
        let mut wanted = String::with_capacity(keys.len() * 72);
        for key in keys {
            let comma = if wanted.is_empty() { "" } else { "," };
            // Writing to a String cannot fail.
            let _ = write!(wanted, "{comma}('{}',{}", key.id, key.received_at.0);
            if let Some(index) = key.index.filter(|_| has_index) {
                let _ = write!(wanted, ",{index}");
            }
            wanted.push(')');
        }
        Some(format!(
            "SELECT uniqExact({key_columns}) AS keys, count() AS rows FROM {table} \
             WHERE {within} AND ({key_columns}) IN ({wanted})",
            within = within(table, month, keys)?,
            table = self.source(table),
        ))
    }

    fn presence_query(&self, table: Table, month: Month, keys: &[RowKey]) -> Option<String> {
        let (id_column, at_column) = table.key_columns();
        let has_index = has_index(table, keys);
        let index_column = if has_index { ", `index`" } else { "" };
        let mut wanted = String::new();
        for key in keys {
            let comma = if wanted.is_empty() { "" } else { "," };
            let id = match table {
                Table::Events | Table::PersonUpdates => format!("toUUID('{}')", key.id),
                Table::RejectedEvents => format!("'{}'", key.id),
            };
            // Writing to a String cannot fail.
            let _ = write!(wanted, "{comma}({id},{}", instant(key.received_at.0));
            if let Some(index) = key.index.filter(|_| has_index) {
                let _ = write!(wanted, ",{index}");
            }
            wanted.push(')');
        }
        Some(format!(
            "SELECT count() FROM (SELECT 1 FROM {table} \
             WHERE {within} AND ({id_column}, {at_column}{index_column}) IN ({wanted}) LIMIT 1)",
            within = within(table, month, keys)?,
            table = self.source(table),
        ))
    }

    /// Returns true if the insert with this token is running now.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn insert_is_running(&self, token: &str) -> Result<bool, QueryError> {
        let token = quoted_text(token);
        let processes = self.on_every_host("processes");
        // An unreachable replica does not matter: Keeper knows the token of any insert there.
        let settings = match &self.settings.cluster {
            Some(_) => " SETTINGS skip_unavailable_shards = 1",
            None => "",
        };
        let sql = format!(
            "SELECT count() FROM {processes} \
             WHERE query_id = {token} OR Settings['insert_deduplication_token'] = {token}{settings}"
        );
        Ok(self.fetch_u64(&sql).await? > 0)
    }

    /// Asks for the server's boot id, which changes when it restarts, and only then.
    ///
    /// The id is in a table that lives in the server's memory. The uptime would not do: it is in
    /// whole seconds, and a server may be killed twice within one. `scope` is the name of the
    /// calling process: clones of a client ask one after the other, and share answers.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn server_boot_id(&self, scope: &str) -> Result<Uuid, QueryError> {
        self.boot_ids.ask(scope, self.ask_for_boot_id(scope)).await
    }

    async fn ask_for_boot_id(&self, scope: &str) -> Result<Uuid, QueryError> {
        let table = format!("{}.server_runs", quoted_name(&self.settings.database));
        let scope = quoted_text(scope);
        // Always the same of two rows, if another process asks under our name. An aggregate answers
        // even if there is none: an answer without a row would prove nothing. Of no rows a profile
        // may have it answer NULL, and then its type is another one for any number of rows.
        let query = format!(
            "SELECT count() AS found, assumeNotNull(min(run)) AS boot_id FROM {table} \
             WHERE scope = {scope}"
        );
        if let Some(boot_id) = self.fetch_boot_id(&query).await? {
            return Ok(boot_id);
        }
        self.execute(&format!(
            "INSERT INTO {table} (scope, run) SELECT {scope}, generateUUIDv4() \
             SETTINGS async_insert = 0"
        ))
        .await?;
        self.fetch_boot_id(&query).await?.ok_or_else(|| {
            QueryError::without_code("the server forgot the boot id it was just given".to_owned())
        })
    }

    /// Returns the table expression of a system table: on a cluster, of all its hosts.
    pub(crate) fn on_every_host(&self, table: &str) -> String {
        match &self.settings.cluster {
            Some(cluster) => {
                format!(
                    "clusterAllReplicas({}, system.{table})",
                    quoted_text(cluster)
                )
            }
            None => format!("system.{table}"),
        }
    }

    async fn fetch_boot_id(&self, sql: &str) -> Result<Option<Uuid>, QueryError> {
        let nonce = Nonce::new();
        let answer = self.proving().query_raw(&nonce.put_into(sql)).fetch_one();
        let row: BootIdRow = self.within_deadline(answer).await?;
        nonce.check(&row.nonce)?;
        Ok((row.found > 0).then_some(row.boot_id))
    }

    /// Returns the table expression of a table for a FROM: on a cluster, all of its shards.
    #[must_use]
    pub fn source(&self, table: Table) -> String {
        self.source_named(table.name())
    }

    pub(crate) fn source_named(&self, table: &str) -> String {
        let database = quoted_name(&self.settings.database);
        let table = quoted_name(table);
        match &self.settings.cluster {
            Some(cluster) => format!("cluster({}, {database}.{table})", quoted_text(cluster)),
            None => format!("{database}.{table}"),
        }
    }
}

/// Answer to a query of `server_runs`, the table of boot ids.
#[derive(clickhouse::Row, serde::Deserialize)]
struct BootIdRow {
    nonce: String,
    /// Number of rows; without one the boot id means nothing.
    found: u64,
    #[serde(with = "clickhouse::serde::uuid")]
    boot_id: Uuid,
}

/// Returns true if rows are told apart by an index, as in parts of a block: rows of a request share
/// its id.
fn has_index(table: Table, keys: &[RowKey]) -> bool {
    table == Table::RejectedEvents && keys.iter().all(|key| key.index.is_some())
}

/// Condition for a WHERE that bounds the rows with keys; `None` without a key.
fn within(table: Table, month: Month, keys: &[RowKey]) -> Option<String> {
    let from = keys.iter().map(|key| key.received_at.0).min()?;
    let to = keys.iter().map(|key| key.received_at.0).max()?;
    let (_, at_column) = table.key_columns();
    let partition_column = match table {
        Table::Events => "timestamp",
        Table::RejectedEvents => "received_at",
        Table::PersonUpdates => "created_at",
    };
    Some(format!(
        "toYYYYMM({partition_column}) = {month} AND {at_column} BETWEEN {from} AND {to}",
        from = instant(from),
        to = instant(to),
    ))
}

/// A `DateTime64(6, 'UTC')` literal.
pub(crate) fn instant(micros: i64) -> String {
    format!("fromUnixTimestamp64Micro({micros}, 'UTC')")
}
