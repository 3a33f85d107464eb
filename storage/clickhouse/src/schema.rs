//! The tables, as numbered migrations.
//!
//! A migration is a list of statements that may be carried out again: the server may die between
//! a statement and the row that says it was applied. What was released is never edited; a change
//! is a new migration with the next number.
//!
//! No column has a DEFAULT: it would differ between replicas and between two tries of one insert.

use crate::Settings;
use crate::settings::{quoted_name, quoted_text};

/// One step of the schema.
pub(crate) struct Migration {
    /// Its place in the order, from 1.
    pub version: u32,
    /// What it does, for `schema_migrations`.
    pub name: &'static str,
    /// The statements, one after the other.
    pub statements: fn(&Dialect) -> Vec<String>,
}

/// Every migration, in order.
pub(crate) const MIGRATIONS: [Migration; 6] = [
    Migration {
        version: 1,
        name: "events",
        statements: |dialect| vec![events(dialect)],
    },
    Migration {
        version: 2,
        name: "rejected_events",
        statements: |dialect| vec![rejected_events(dialect)],
    },
    Migration {
        version: 3,
        name: "server_runs",
        statements: |dialect| vec![server_runs(dialect)],
    },
    Migration {
        version: 4,
        name: "person_updates",
        statements: |dialect| vec![person_updates(dialect)],
    },
    Migration {
        version: 5,
        name: "persons",
        statements: crate::persons::statements,
    },
    Migration {
        version: 6,
        name: "rejected_events_resent",
        statements: |dialect| vec![rejected_events_resent(dialect)],
    },
];

/// How a statement differs between one server and a cluster.
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

    /// What a view reads a table from: on a cluster, all of its shards.
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

    /// A success must survive a power cut, and a token must be remembered for as long as an insert
    /// may be tried again. By default the server does neither.
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

fn events(dialect: &Dialect) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {head} (\
         uuid UUID, \
         event LowCardinality(String), \
         properties String CODEC(ZSTD(1)), \
         timestamp DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)), \
         team_id Int64, \
         distinct_id String CODEC(ZSTD(1)), \
         created_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)), \
         historical_migration Bool, \
         INDEX created_at_range created_at TYPE minmax GRANULARITY 1\
         ) ENGINE = {engine} \
         PARTITION BY toYYYYMM(timestamp) \
         ORDER BY (team_id, toDate(timestamp), event, cityHash64(distinct_id), cityHash64(uuid))\
         {settings}",
        head = dialect.head("events"),
        engine = dialect.merge_tree("Replacing", "events", Some("created_at")),
        settings = dialect.durability(),
    )
}

fn rejected_events(dialect: &Dialect) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {head} (\
         team_id Int64, \
         received_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)), \
         request_id String CODEC(ZSTD(1)), \
         `index` UInt32, \
         code LowCardinality(String), \
         attr String CODEC(ZSTD(1)), \
         detail String CODEC(ZSTD(1)), \
         raw String CODEC(ZSTD(1)), \
         historical_migration Bool\
         ) ENGINE = {engine} \
         PARTITION BY toYYYYMM(received_at) \
         ORDER BY (team_id, received_at, request_id, `index`)\
         {settings}",
        head = dialect.head("rejected_events"),
        engine = dialect.merge_tree("", "rejected_events", None),
        settings = dialect.durability(),
    )
}

/// Which rows of `rejected_events` an operator sent again; these stay as they were.
fn rejected_events_resent(dialect: &Dialect) -> String {
    let table = crate::rejected::RESENT;
    format!(
        "CREATE TABLE IF NOT EXISTS {head} (\
         team_id Int64, \
         received_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)), \
         request_id String CODEC(ZSTD(1)), \
         `index` UInt32, \
         resent_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1))\
         ) ENGINE = {engine} \
         PARTITION BY toYYYYMM(received_at) \
         ORDER BY (team_id, received_at, request_id, `index`)\
         {settings}",
        head = dialect.head(table),
        engine = dialect.merge_tree("Replacing", table, Some("resent_at")),
        settings = dialect.durability(),
    )
}

/// In the order in which its rows are applied.
fn person_updates(dialect: &Dialect) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {head} (\
         team_id Int64, \
         created_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)), \
         request_id String CODEC(ZSTD(1)), \
         `index` UInt32, \
         uuid UUID, \
         timestamp DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)), \
         kind LowCardinality(String), \
         distinct_id String CODEC(ZSTD(1)), \
         other_id String CODEC(ZSTD(1)), \
         person_set String CODEC(ZSTD(1)), \
         person_set_once String CODEC(ZSTD(1)), \
         person_unset String CODEC(ZSTD(1)), \
         group_type LowCardinality(String), \
         group_key String CODEC(ZSTD(1)), \
         group_set String CODEC(ZSTD(1))\
         ) ENGINE = {engine} \
         PARTITION BY toYYYYMM(created_at) \
         ORDER BY (created_at, request_id, `index`)\
         {settings}",
        head = dialect.head("person_updates"),
        engine = dialect.merge_tree("", "person_updates", None),
        settings = dialect.durability(),
    )
}

/// Empty after every start of the server: that is its purpose.
fn server_runs(dialect: &Dialect) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {head} (scope String, run UUID) ENGINE = Memory",
        head = dialect.head("server_runs"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_rows::Table;

    fn dialect(cluster: Option<&str>) -> Dialect {
        let mut settings = Settings::new("http://h", "u", "p");
        settings.cluster = cluster.map(str::to_owned);
        Dialect::of(&settings)
    }

    #[test]
    fn migrations_are_numbered_without_gaps() {
        let versions: Vec<u32> = MIGRATIONS.iter().map(|step| step.version).collect();
        assert_eq!(versions, (1..=versions.len() as u32).collect::<Vec<_>>());
    }

    #[test]
    fn every_column_that_is_inserted_is_declared() {
        for (table, ddl) in [
            (Table::Events, events(&dialect(None))),
            (Table::RejectedEvents, rejected_events(&dialect(None))),
            (Table::PersonUpdates, person_updates(&dialect(None))),
        ] {
            let target = table.insert_target();
            let columns = target.split(['(', ')']).nth(1).unwrap();
            for column in columns.split(',') {
                assert!(
                    ddl.contains(&format!("({column} ")) || ddl.contains(&format!(", {column} ")),
                    "{column} of {target}"
                );
            }
        }
    }

    #[test]
    fn a_cluster_gets_replicated_tables_on_every_host() {
        let ddl = events(&dialect(Some("main")));
        assert!(
            ddl.contains("`millrace`.`events` ON CLUSTER 'main'"),
            "{ddl}"
        );
        let engine = "ReplicatedReplacingMergeTree(\
                      '/clickhouse/tables/{shard}/millrace/events', '{replica}', created_at)";
        assert!(ddl.contains(engine), "{ddl}");
    }

    #[test]
    fn one_server_remembers_tokens_and_syncs_parts() {
        let ddl = events(&dialect(None));
        assert!(
            ddl.contains("ENGINE = ReplacingMergeTree(created_at)"),
            "{ddl}"
        );
        assert!(
            ddl.contains("non_replicated_deduplication_window = 10000"),
            "{ddl}"
        );
        assert!(ddl.contains("fsync_after_insert = 1"), "{ddl}");
    }
}
