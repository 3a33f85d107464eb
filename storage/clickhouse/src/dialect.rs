//! Dialect of the statements that make tables: one server's, a cluster's, ClickHouse Cloud's.
//!
//! On shards, a table that rows are spread over is two: `events_local` on every host has the rows
//! of its shard, and `events` is `Distributed` over all. A table that every shard has whole, as
//! `persons`, keeps its name, and `persons_all` writes to one shard or another.

use crate::settings::{quoted_name, quoted_text};
use crate::{Replication, Settings};

/// Settings of a table over all shards. Our inserts wait for the shards; anybody else's is answered
/// once it is in a file of the host that took it.
const DISTRIBUTED_DURABILITY: &str = " SETTINGS fsync_after_insert = 1, fsync_directories = 1";

/// Dialect of statements, which differs between one server and a cluster.
pub(crate) struct Dialect {
    database: String,
    database_name: String,
    /// Name of the cluster over whose shards rows are spread.
    shards: Option<String>,
    replication: Option<Replication>,
}

impl Dialect {
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            database: quoted_name(&settings.database),
            database_name: settings.database.clone(),
            shards: settings.sharded().map(str::to_owned),
            replication: settings.replication(),
        }
    }

    pub(crate) fn create_database(&self) -> String {
        let (database, name) = (&self.database, &self.database_name);
        match (self.replication, &self.shards) {
            (Some(Replication::Database), Some(cluster)) => format!(
                "CREATE DATABASE IF NOT EXISTS {database} ON CLUSTER {cluster} \
                 ENGINE = Replicated({path}, '{{shard}}', '{{replica}}')",
                cluster = quoted_text(cluster),
                path = quoted_text(&format!("/clickhouse/databases/{name}")),
            ),
            _ => format!(
                "CREATE DATABASE IF NOT EXISTS {database}{}",
                self.on_cluster()
            ),
        }
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

    /// Clause that sends a statement to every host of the cluster.
    pub(crate) fn on_cluster(&self) -> String {
        match (self.replication, &self.shards) {
            (Some(Replication::Keeper), Some(cluster)) => {
                format!(" ON CLUSTER {}", quoted_text(cluster))
            }
            _ => String::new(),
        }
    }

    /// Clause that sends a statement about partitions to every host of the cluster: a replicated
    /// database carries them to the replicas of one shard only.
    pub(crate) fn partitions_on_cluster(&self) -> String {
        match (self.replication, &self.shards) {
            (Some(Replication::Keeper | Replication::Database), Some(cluster)) => {
                format!(" ON CLUSTER {}", quoted_text(cluster))
            }
            _ => String::new(),
        }
    }

    /// Name of a table or view in a statement that makes it.
    pub(crate) fn head(&self, table: &str) -> String {
        format!("{}{}", self.source(table), self.on_cluster())
    }

    /// Name of a table with the rows of one shard, in a statement that makes it.
    pub(crate) fn local_head(&self, table: &str) -> String {
        self.head(&self.local(table))
    }

    /// Name of the table that has the rows of one shard; of one server, of all.
    pub(crate) fn local(&self, table: &str) -> String {
        match self.shards {
            Some(_) => format!("{table}_local"),
            None => table.to_owned(),
        }
    }

    /// Table expression that a view reads from.
    pub(crate) fn source(&self, table: &str) -> String {
        format!("{}.{}", self.database, quoted_name(table))
    }

    /// Beginning of a statement that makes a view. On shards a view is replaced: that of an earlier
    /// version read a table which is one of all shards now.
    pub(crate) fn create_view(&self, view: &str) -> String {
        match self.shards {
            Some(_) => format!("CREATE OR REPLACE VIEW {}", self.head(view)),
            None => format!("CREATE VIEW IF NOT EXISTS {}", self.head(view)),
        }
    }

    /// Statements of a table whose rows are spread over shards by a key, which is SQL.
    pub(crate) fn spread(&self, table: &str, create_local: String, key: &str) -> Vec<String> {
        let local = self.local(table);
        let mut statements = vec![create_local];
        statements.extend(self.distributed(table, &local, Some(key)));
        statements
    }

    /// Statements of a table that every shard has whole.
    pub(crate) fn everywhere(&self, table: &str, create: String) -> Vec<String> {
        let mut statements = vec![create];
        statements.extend(self.distributed(&everywhere(table), table, None));
        statements
    }

    /// Statement of a table over all shards of another one; `None` without shards.
    fn distributed(&self, table: &str, of: &str, key: Option<&str>) -> Option<String> {
        let cluster = self.shards.as_deref()?;
        let key = key.map(|key| format!(", {key}")).unwrap_or_default();
        Some(format!(
            "CREATE TABLE IF NOT EXISTS {head} AS {source} \
             ENGINE = Distributed({cluster}, {database}, {local}{key}){durability}",
            head = self.head(table),
            source = self.source(of),
            cluster = quoted_text(cluster),
            database = quoted_text(&self.database_name),
            local = quoted_text(of),
            durability = DISTRIBUTED_DURABILITY,
        ))
    }

    /// A MergeTree of a kind, replicated on a cluster. The path has the name without `_local`: it
    /// is that of earlier versions.
    pub(crate) fn merge_tree(
        &self,
        kind: &str,
        table: &str,
        version_column: Option<&str>,
    ) -> String {
        let mut arguments = Vec::new();
        if self.replication == Some(Replication::Keeper) {
            let path = format!(
                "/clickhouse/tables/{{shard}}/{}/{table}",
                self.database_name
            );
            arguments.push(quoted_text(&path));
            arguments.push("'{replica}'".to_owned());
        }
        arguments.extend(version_column.map(str::to_owned));
        let replicated = match self.replication {
            Some(Replication::Keeper | Replication::Database) => "Replicated",
            Some(Replication::None | Replication::Cloud) | None => "",
        };
        format!("{replicated}{kind}MergeTree({})", arguments.join(", "))
    }

    /// Settings of a table for durability: a success must survive a power cut, and a token must be
    /// remembered for as long as an insert may be tried again. By default the server does neither;
    /// ClickHouse Cloud, which has no disks of its own, does the former.
    pub(crate) fn durability(&self) -> &'static str {
        match self.replication {
            Some(Replication::Keeper | Replication::Database) => {
                " SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, \
                 replicated_deduplication_window = 10000, \
                 replicated_deduplication_window_seconds = 604800"
            }
            Some(Replication::Cloud) => {
                " SETTINGS replicated_deduplication_window = 10000, \
                 replicated_deduplication_window_seconds = 604800"
            }
            Some(Replication::None) | None => {
                " SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, \
                 non_replicated_deduplication_window = 10000"
            }
        }
    }
}

/// Name of the table that writes to any shard of a table which every shard has whole.
pub(crate) fn everywhere(table: &str) -> String {
    format!("{table}_all")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_about_partitions_go_to_every_host_that_keeper_knows() {
        for (cluster, replication, expected) in [
            (Some("main"), Replication::Keeper, " ON CLUSTER 'main'"),
            (Some("main"), Replication::Database, " ON CLUSTER 'main'"),
            (Some("main"), Replication::None, ""),
            (Some("default"), Replication::Cloud, ""),
            (None, Replication::Keeper, ""),
        ] {
            let dialect = Dialect::of(&Settings {
                cluster: cluster.map(str::to_owned),
                replication,
                ..Settings::new("http://h", "u", "p")
            });
            assert_eq!(dialect.partitions_on_cluster(), expected, "{replication}");
        }
    }
}
