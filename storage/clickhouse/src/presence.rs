//! Is a block there, is an insert still running, did the server restart.
//!
//! These three questions settle an insert whose answer was lost. A token alone does not: a plain
//! MergeTree records the token before the part gets its name, so that after a crash between the
//! two a retry under the same token is taken for a duplicate of rows that are gone.

use crate::settings::{quoted_name, quoted_text};
use crate::{ClickHouse, QueryError};
use millrace_rows::{Month, RowKey, Table};
use std::fmt::Write;
use uuid::Uuid;

impl ClickHouse {
    /// Whether at least one of the rows with `keys` is in the table. As a block is stored whole or
    /// not at all, one row found means that all are there.
    ///
    /// Only the parts of `month` whose times of receipt can match are read.
    ///
    /// # Errors
    /// If the server cannot be asked. An empty `keys` is answered with `false`, unasked.
    pub async fn any_present(
        &self,
        table: Table,
        month: Month,
        keys: &[RowKey],
    ) -> Result<bool, QueryError> {
        let Some(sql) = self.presence_question(table, month, keys) else {
            return Ok(false);
        };
        Ok(self.fetch_u64(&sql).await? > 0)
    }

    fn presence_question(&self, table: Table, month: Month, keys: &[RowKey]) -> Option<String> {
        let from = keys.iter().map(|key| key.received_at.0).min()?;
        let to = keys.iter().map(|key| key.received_at.0).max()?;
        let (id_column, at_column) = table.key_columns();
        let partition_column = match table {
            Table::Events => "timestamp",
            Table::RejectedEvents => "received_at",
            Table::PersonUpdates => "created_at",
        };
        let mut sought = String::new();
        for key in keys {
            let comma = if sought.is_empty() { "" } else { "," };
            let id = match table {
                Table::Events | Table::PersonUpdates => format!("toUUID('{}')", key.id),
                Table::RejectedEvents => format!("'{}'", key.id),
            };
            // Writing to a String cannot fail.
            let _ = write!(sought, "{comma}({id},{})", instant(key.received_at.0));
        }
        Some(format!(
            "SELECT count() FROM (SELECT 1 FROM {table} \
             WHERE toYYYYMM({partition_column}) = {month} \
             AND {at_column} BETWEEN {from} AND {to} \
             AND ({id_column}, {at_column}) IN ({sought}) LIMIT 1)",
            table = self.source(table),
            from = instant(from),
            to = instant(to),
        ))
    }

    /// Whether the insert with this token is being carried out right now.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn insert_is_running(&self, token: &str) -> Result<bool, QueryError> {
        let token = quoted_text(token);
        let processes = self.on_every_host("processes");
        let sql = format!(
            "SELECT count() FROM {processes} \
             WHERE query_id = {token} OR Settings['insert_deduplication_token'] = {token}"
        );
        Ok(self.fetch_u64(&sql).await? > 0)
    }

    /// The run of the server: a number that changes when it restarts, and only then.
    ///
    /// The number is kept in a table that lives in the server's memory. The uptime would not do:
    /// it is in whole seconds, and a server may be killed twice within one. `scope` is the name of
    /// the one who asks; only one may ask under one name at a time.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn server_run(&self, scope: &str) -> Result<Uuid, QueryError> {
        let table = format!("{}.server_runs", quoted_name(&self.settings.database));
        let scope = quoted_text(scope);
        let question = format!("SELECT run FROM {table} WHERE scope = {scope} LIMIT 1");
        if let Some(run) = self.fetch_run(&question).await? {
            return Ok(run);
        }
        self.execute(&format!(
            "INSERT INTO {table} (scope, run) SELECT {scope}, generateUUIDv4() \
             SETTINGS async_insert = 0"
        ))
        .await?;
        self.fetch_run(&question).await?.ok_or_else(|| {
            QueryError::without_code("the server forgot the run it was just given".to_owned())
        })
    }

    /// What to read a table of the server's own from: on a cluster, of all its hosts.
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

    async fn fetch_run(&self, sql: &str) -> Result<Option<Uuid>, QueryError> {
        let run: Option<Run> = self
            .within_deadline(self.client.query_raw(sql).fetch_optional())
            .await?;
        Ok(run.map(|run| run.run))
    }

    /// What to read a table from, for a FROM: on a cluster, all of its shards.
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

/// One row of `server_runs`.
#[derive(clickhouse::Row, serde::Deserialize)]
struct Run {
    #[serde(with = "clickhouse::serde::uuid")]
    run: Uuid,
}

/// A `DateTime64(6, 'UTC')` literal.
fn instant(micros: i64) -> String {
    format!("fromUnixTimestamp64Micro({micros}, 'UTC')")
}
