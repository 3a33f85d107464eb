//! The schema, as numbered migrations.
//!
//! A migration is a list of statements that may be executed again: the server may die between a
//! statement and the row that records the migration. Released migrations are never edited; a change
//! is a new migration with the next number.
//!
//! No column here has a DEFAULT: it would differ between replicas and between two tries of one
//! insert. Property columns, which depend on their row alone, are added beside the migrations.

use crate::dialect::Dialect;

/// Sharding key of events and of person updates: all versions of an event are on one shard, where a
/// merge keeps the latest.
const BY_DISTINCT_ID: &str = "sipHash64(distinct_id)";
/// Sharding key of rejected events, which need not have a distinct id.
const BY_REQUEST: &str = "sipHash64(request_id)";
/// Sharding key of sums, whose versions a merge has to find together.
const BY_PROJECT: &str = "sipHash64(team_id)";
/// Table of boot ids.
pub(crate) const BOOT_IDS: &str = "server_runs";
/// Table of the catalogs that have used the tables.
pub(crate) const CATALOG_IDS: &str = "catalog_ids";

/// One migration of the schema.
pub(crate) struct Migration {
    /// Number in the order, from 1.
    pub version: u32,
    /// Name of the migration in `schema_migrations`.
    pub name: &'static str,
    /// The statements, one after the other.
    pub statements: fn(&Dialect) -> Vec<String>,
}

/// Every migration, in order.
pub(crate) const MIGRATIONS: [Migration; 8] = [
    Migration {
        version: 1,
        name: "events",
        statements: |dialect| dialect.spread("events", events(dialect), BY_DISTINCT_ID),
    },
    Migration {
        version: 2,
        name: "rejected_events",
        statements: |dialect| {
            dialect.spread("rejected_events", rejected_events(dialect), BY_REQUEST)
        },
    },
    Migration {
        version: 3,
        name: "server_runs",
        statements: |dialect| dialect.everywhere(BOOT_IDS, boot_ids(dialect)),
    },
    Migration {
        version: 4,
        name: "person_updates",
        statements: |dialect| {
            dialect.spread("person_updates", person_updates(dialect), BY_DISTINCT_ID)
        },
    },
    Migration {
        version: 5,
        name: "persons",
        statements: crate::persons::statements,
    },
    Migration {
        version: 6,
        name: "rejected_events_resent",
        statements: |dialect| {
            let create = rejected_events_resent(dialect);
            dialect.spread(crate::rejected_events::RESENT, create, BY_REQUEST)
        },
    },
    Migration {
        version: 7,
        name: "catalog_ids",
        statements: |dialect| vec![catalog_ids(dialect)],
    },
    Migration {
        version: 8,
        name: "project_stats",
        statements: |dialect| {
            let create = crate::stats::create(dialect);
            dialect.spread(crate::stats::STATS, create, BY_PROJECT)
        },
    },
];

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
        head = dialect.local_head("events"),
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
        head = dialect.local_head("rejected_events"),
        engine = dialect.merge_tree("", "rejected_events", None),
        settings = dialect.durability(),
    )
}

/// Records rows of `rejected_events` that an operator sent again; the rows themselves stay as they
/// were.
fn rejected_events_resent(dialect: &Dialect) -> String {
    let table = crate::rejected_events::RESENT;
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
        head = dialect.local_head(table),
        engine = dialect.merge_tree("Replacing", table, Some("resent_at")),
        settings = dialect.durability(),
    )
}

/// Table of person updates, sorted in the order in which they are applied.
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
        head = dialect.local_head("person_updates"),
        engine = dialect.merge_tree("", "person_updates", None),
        settings = dialect.durability(),
    )
}

/// Table of the server's boot ids: it is empty after every start of the server. Its name and column
/// are of before: in a rolling upgrade nodes of both versions ask it.
fn boot_ids(dialect: &Dialect) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {head} (scope String, run UUID) ENGINE = Memory",
        head = dialect.head(BOOT_IDS),
    )
}

/// Table of the ids of catalogs, of which the first owns the rows. Like `schema_migrations`, each
/// host has its own.
pub(crate) fn catalog_ids(dialect: &Dialect) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {head} (id UUID, claimed_at DateTime64(6, 'UTC')) \
         ENGINE = {engine} ORDER BY (claimed_at, id){settings}",
        head = dialect.head(CATALOG_IDS),
        engine = dialect.merge_tree("", CATALOG_IDS, None),
        settings = dialect.durability(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
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
