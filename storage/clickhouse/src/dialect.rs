//! Dialect of the statements that make tables: one server's or a cluster's.

use crate::Settings;
use crate::settings::{quoted_name, quoted_text};

/// Dialect of statements, which differs between one server and a cluster.
pub(crate) struct Dialect {
    database: String,
    database_name: String,
    on_cluster: String,
    cluster: Option<String>,
    replicated: bool,
}

impl Dialect {
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            database: quoted_name(&settings.database),
            database_name: settings.database.clone(),
            on_cluster: settings
                .cluster
                .as_ref()
                .map(|cluster| format!(" ON CLUSTER {}", quoted_text(cluster)))
                .unwrap_or_default(),
            cluster: settings.cluster.clone(),
            replicated: settings.cluster.is_some(),
        }
    }

    pub(crate) fn create_database(&self) -> String {
        format!(
            "CREATE DATABASE IF NOT EXISTS {}{}",
            self.database, self.on_cluster
        )
    }

    pub(crate) fn create_schema_migrations(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {head} (version UInt32, name String, \
             applied_at DateTime64(6, 'UTC')) ENGINE = {engine} ORDER BY version{settings}",
            head = self.head("schema_migrations"),
            engine = self.merge_tree("Replacing", "schema_migrations", Some("applied_at")),
            settings = self.durability(),
        )
    }

    pub(crate) fn head(&self, table: &str) -> String {
        format!(
            "{}.{}{}",
            self.database,
            quoted_name(table),
            self.on_cluster
        )
    }

    /// Table expression that a view reads from: on a cluster, all shards of the table.
    pub(crate) fn source(&self, table: &str) -> String {
        let table = format!("{}.{}", self.database, quoted_name(table));
        match &self.cluster {
            Some(cluster) => format!("cluster({}, {table})", quoted_text(cluster)),
            None => table,
        }
    }

    /// A MergeTree of a kind, replicated on a cluster.
    pub(crate) fn merge_tree(
        &self,
        kind: &str,
        table: &str,
        version_column: Option<&str>,
    ) -> String {
        let mut arguments = Vec::new();
        if self.replicated {
            let path = format!(
                "/clickhouse/tables/{{shard}}/{}/{table}",
                self.database_name
            );
            arguments.push(quoted_text(&path));
            arguments.push("'{replica}'".to_owned());
        }
        arguments.extend(version_column.map(str::to_owned));
        let replicated = if self.replicated { "Replicated" } else { "" };
        format!("{replicated}{kind}MergeTree({})", arguments.join(", "))
    }

    /// Settings of a table for durability: a success must survive a power cut, and a token must be
    /// remembered for as long as an insert may be tried again. By default the server does neither.
    pub(crate) fn durability(&self) -> &'static str {
        if self.replicated {
            " SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, \
             replicated_deduplication_window = 10000, \
             replicated_deduplication_window_seconds = 604800"
        } else {
            " SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, \
             non_replicated_deduplication_window = 10000"
        }
    }
}
