//! Is a block there, is an insert still running, did the server restart.
//!
//! An insert is one block, and a block is there whole or not at all: one row found is enough. Where rows may be
//! there each by itself, because the block was sent by halves, all are counted.
//!
//! These questions settle an insert whose answer was lost. A token alone does not: a plain
//! MergeTree records the token before the part gets its name, so that after a crash between the
//! two a retry under the same token is taken for a duplicate of rows that are gone.

use crate::settings::{quoted_name, quoted_text};
use crate::{ClickHouse, QueryError};
use millrace_rows::{Month, RowKey, Table};
use std::fmt::Write;
use uuid::Uuid;

/// Keys in one question of [`ClickHouse::count_present`] at most.
pub const PRESENCE_KEYS_MAX: usize = 8_192;

/// Settings of a question with so many keys, which is longer than others may be.
const LONG_QUESTION: [(&str, &str); 2] = [
    ("max_query_size", "4194304"),
    ("max_ast_elements", "1000000"),
];

/// Rows that were found.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    clickhouse::Row,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Found {
    /// Keys of which there is a row.
    pub keys: u64,
    /// Rows with these keys.
    pub rows: u64,
}

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

    /// Counts those of `keys` that are in the table, and their rows. The keys differ, and are at most
    /// [`PRESENCE_KEYS_MAX`].
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn count_present(
        &self,
        table: Table,
        month: Month,
        keys: &[RowKey],
    ) -> Result<Found, QueryError> {
        let Some(sql) = self.count_question(table, month, keys) else {
            return Ok(Found::default());
        };
        let mut question = self.proving().query_raw(&sql);
        for (name, value) in LONG_QUESTION {
            question = question.with_setting(name, value);
        }
        if let Some((name, value)) = self.settings.quorum_of_reads() {
            question = question.with_setting(name, value);
        }
        self.within_deadline(question.fetch_one()).await
    }

    /// Names keys by nothing but literals, of which a server reads many at once.
    fn count_question(&self, table: Table, month: Month, keys: &[RowKey]) -> Option<String> {
        let has_index = has_index(table, keys);
        let index_column = if has_index { ", `index`" } else { "" };
        let (id_column, at_column) = table.key_columns();
        let key_columns = format!("{id_column}, toUnixTimestamp64Micro({at_column}){index_column}");
        let mut sought = String::with_capacity(keys.len() * 72);
        for key in keys {
            let comma = if sought.is_empty() { "" } else { "," };
            // Writing to a String cannot fail.
            let _ = write!(sought, "{comma}('{}',{}", key.id, key.received_at.0);
            if let Some(index) = key.index.filter(|_| has_index) {
                let _ = write!(sought, ",{index}");
            }
            sought.push(')');
        }
        Some(format!(
            "SELECT uniqExact({key_columns}) AS keys, count() AS rows FROM {table} \
             WHERE {within} AND ({key_columns}) IN ({sought})",
            within = within(table, month, keys)?,
            table = self.source(table),
        ))
    }

    fn presence_question(&self, table: Table, month: Month, keys: &[RowKey]) -> Option<String> {
        let (id_column, at_column) = table.key_columns();
        let has_index = has_index(table, keys);
        let index_column = if has_index { ", `index`" } else { "" };
        let mut sought = String::new();
        for key in keys {
            let comma = if sought.is_empty() { "" } else { "," };
            let id = match table {
                Table::Events | Table::PersonUpdates => format!("toUUID('{}')", key.id),
                Table::RejectedEvents => format!("'{}'", key.id),
            };
            // Writing to a String cannot fail.
            let _ = write!(sought, "{comma}({id},{}", instant(key.received_at.0));
            if let Some(index) = key.index.filter(|_| has_index) {
                let _ = write!(sought, ",{index}");
            }
            sought.push(')');
        }
        let quorum = self.settings.quorum_of_reads();
        let settings = quorum
            .map(|(name, value)| format!(" SETTINGS {name} = {value}"))
            .unwrap_or_default();
        Some(format!(
            "SELECT count() FROM (SELECT 1 FROM {table} \
             WHERE {within} AND ({id_column}, {at_column}{index_column}) IN ({sought}) LIMIT 1){settings}",
            within = within(table, month, keys)?,
            table = self.source(table),
        ))
    }

    /// Whether the insert with this token is being carried out right now.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn insert_is_running(&self, token: &str) -> Result<bool, QueryError> {
        let token = quoted_text(token);
        let processes = self.on_every_host("processes");
        // A replica that is away stops no insert: Keeper knows the token, whatever was being done there.
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

    /// The run of the server: a number that changes when it restarts, and only then.
    ///
    /// The number is kept in a table that lives in the server's memory. The uptime would not do:
    /// it is in whole seconds, and a server may be killed twice within one. `scope` is the name of
    /// the process that asks: clones of a client ask one after the other, and share answers.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn server_run(&self, scope: &str) -> Result<Uuid, QueryError> {
        self.runs.ask(scope, self.ask_for_run(scope)).await
    }

    async fn ask_for_run(&self, scope: &str) -> Result<Uuid, QueryError> {
        let table = format!("{}.server_runs", quoted_name(&self.settings.database));
        let scope = quoted_text(scope);
        // Of two rows, should another process ask under our name, always the same one.
        let question =
            format!("SELECT run FROM {table} WHERE scope = {scope} ORDER BY run LIMIT 1");
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
            .within_deadline(self.proving().query_raw(sql).fetch_optional())
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

/// Whether rows are told apart by an index, as those of parts of a block: rows of a request share its id.
fn has_index(table: Table, keys: &[RowKey]) -> bool {
    table == Table::RejectedEvents && keys.iter().all(|key| key.index.is_some())
}

/// Where rows with keys can be, for a WHERE; `None` without a key.
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
fn instant(micros: i64) -> String {
    format!("fromUnixTimestamp64Micro({micros}, 'UTC')")
}
