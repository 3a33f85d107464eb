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
use crate::wanted_rows::{WantedRows, has_index, instant, within};
use crate::{ClickHouse, PlacedKey, QueryError, Replication};
use clickhouse::query::Query;
use millrace_rows::{Month, RowKey, Table};
use std::collections::HashSet;
use std::fmt::Write;

/// Most keys of one call of [`ClickHouse::count_present`].
pub const PRESENCE_KEYS_MAX: usize = 8_192;

/// Condition that finds what shards run of a statement.
const OF_STATEMENT: &str = " OR initial_query_id = TOKEN";

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

    /// Counts the `keys` that are in the table, and their rows: on replicas that may be behind, in
    /// that of any. The keys must be distinct, and at most [`PRESENCE_KEYS_MAX`].
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
        let (answered, found_keys, rows): (String, u64, u64) = self.within_deadline(answer).await?;
        nonce.check(&answered)?;
        let counted = PresenceCount {
            keys: found_keys,
            rows,
        };
        if counted.keys >= keys.len() as u64 || !self.settings.replicas_may_be_behind() {
            return Ok(counted);
        }
        // Replicas were asked of which some may lack rows that others of their shards have.
        let listed = self.present_keys(table, month, keys).await?;
        let listed: HashSet<PlacedKey> = listed.into_iter().collect();
        let listed_keys: HashSet<RowKey> = listed.iter().map(|row| row.key).collect();
        Ok(PresenceCount {
            keys: counted.keys.max(listed_keys.len() as u64),
            rows: counted.rows.max(listed.len() as u64),
        })
    }

    /// Makes a query with many keys that sees all stored rows.
    pub(crate) fn long_query(&self, sql: &str) -> Query {
        let mut query = self.proving().query_raw(sql);
        for (name, value) in LONG_QUERY {
            query = query.with_setting(name, value);
        }
        self.seeing_quorum(query)
    }

    fn count_query(&self, table: Table, month: Month, keys: &[RowKey]) -> Option<String> {
        let wanted = WantedRows::of(table, month, keys)?;
        Some(format!(
            "SELECT uniqExact({key_columns}) AS keys, count() AS rows FROM {table} WHERE {condition}",
            key_columns = wanted.key_columns,
            condition = wanted.condition,
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
        let (of_statement, settings) = match self.settings.replication() {
            None => ("", ""),
            // A shard whose host is gone may still run it.
            Some(Replication::None) => (OF_STATEMENT, " SETTINGS skip_unavailable_shards = 0"),
            // An unreachable replica does not matter: Keeper knows the token of any insert there.
            Some(_) => (OF_STATEMENT, " SETTINGS skip_unavailable_shards = 1"),
        };
        let sql = format!(
            "SELECT count() FROM {processes} WHERE query_id = {token}{of_statement} \
             OR Settings['insert_deduplication_token'] = {token}{settings}",
            of_statement = of_statement.replace("TOKEN", &token),
        );
        Ok(self.fetch_u64(&sql).await? > 0)
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

    /// Returns the table expression of a table for a FROM: on a cluster, all of its shards.
    #[must_use]
    pub fn source(&self, table: Table) -> String {
        self.source_named(table.name())
    }

    /// Name of a table. On a cluster it is one over all shards, or one that every host has whole.
    pub(crate) fn source_named(&self, table: &str) -> String {
        let database = quoted_name(&self.settings.database);
        format!("{database}.{}", quoted_name(table))
    }

    /// Table expression of a table of which each shard has rows of its own, and that none is over.
    pub(crate) fn of_all_shards(&self, table: &str) -> String {
        let source = format!("{}.{table}", quoted_name(&self.settings.database));
        match self.settings.sharded() {
            Some(cluster) => format!("cluster({}, {source})", quoted_text(cluster)),
            None => source,
        }
    }
}
