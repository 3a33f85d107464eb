//! Schema of an upgraded catalog: the one of a new catalog, with the same first rows.

use millrace_catalog::Catalog;
use millrace_catalog::testing::TestDatabase;

on_both!(empty:
    a_catalog_of_4bbccd5_gets_the_schema_and_the_rows_of_a_new_one,
    a_catalog_in_between_gets_the_schema_of_a_new_one,
    every_kind_of_difference_is_seen,
);

/// Tables, indexes and triggers with their texts, which have columns, types, defaults and keys.
const OF_SQLITE: &str =
    "SELECT type || ' ' || name || ' ' || tbl_name || ' ' || coalesce(sql, '') FROM sqlite_master";

const OF_POSTGRES: &str = "\
    SELECT format('column %s %s %s %s null %s default %s identity %s', table_name, \
        row_number() OVER (PARTITION BY table_name ORDER BY ordinal_position), column_name, \
        udt_name, is_nullable, column_default, identity_generation) \
        FROM information_schema.columns WHERE table_schema = 'public' \
    UNION ALL SELECT format('constraint %s %s %s', conrelid::regclass, conname, \
        pg_get_constraintdef(oid)) FROM pg_constraint WHERE connamespace = 'public'::regnamespace \
    UNION ALL SELECT format('index %s', indexdef) FROM pg_indexes WHERE schemaname = 'public' \
    UNION ALL SELECT format('trigger %s', pg_get_triggerdef(oid)) FROM pg_trigger \
        WHERE NOT tgisinternal \
    UNION ALL SELECT format('function %s', pg_get_functiondef(oid)) FROM pg_proc \
        WHERE pronamespace = 'public'::regnamespace";

/// Creates an empty database of the same kind.
async fn another(database: &TestDatabase) -> TestDatabase {
    if database.is_sqlite() {
        TestDatabase::sqlite()
    } else {
        TestDatabase::postgres().await
    }
}

/// Describes everything in a schema, in the order of names. Spaces and quotes are left out, as the
/// databases keep those of the statements.
async fn schema(database: &TestDatabase) -> Vec<String> {
    let query = if database.is_sqlite() {
        OF_SQLITE
    } else {
        OF_POSTGRES
    };
    let found = database.first_column(query).await.unwrap();
    let mut lines: Vec<String> = found
        .iter()
        .map(|line| line.replace(|letter: char| letter.is_whitespace() || letter == '"', ""))
        .collect();
    lines.sort();
    lines
}

/// Rows of all tables, but for the times of migrations, SQLite's counters of ids, and the catalog's
/// own id, which is random.
async fn rows(database: &TestDatabase) -> Vec<String> {
    let others = ["seaql_migrations ", "sqlite_sequence ", "catalog_ids "];
    let mut rows = database.contents().await.unwrap();
    rows.retain(|row| !others.iter().any(|other| row.starts_with(other)));
    let migrations = "SELECT version FROM seaql_migrations ORDER BY version";
    rows.extend(database.first_column(migrations).await.unwrap());
    rows
}

/// Brings the schema of a database up to date.
async fn migrate(database: &TestDatabase) {
    let catalog = Catalog::open(database.url()).await.unwrap();
    catalog.close().await.unwrap();
}

async fn a_catalog_of_4bbccd5_gets_the_schema_and_the_rows_of_a_new_one(database: TestDatabase) {
    let old = another(&database).await;
    old.open_4bbccd5().await.unwrap().close().await.unwrap();
    assert_ne!(schema(&old).await, schema(&database).await);
    migrate(&old).await;
    migrate(&database).await;
    let (upgraded, new) = (schema(&old).await, schema(&database).await);
    assert!(new.len() > 100, "{new:?}");
    let differing = |one: &[String], other: &[String]| -> Vec<String> {
        let differing = one.iter().filter(|line| !other.contains(line));
        differing.cloned().collect()
    };
    let none: [String; 0] = [];
    assert_eq!(differing(&upgraded, &new), none, "only in an upgraded one");
    assert_eq!(differing(&new, &upgraded), none, "only in a new one");
    assert_eq!(upgraded, new);
    assert_eq!(rows(&old).await, rows(&database).await);
}

async fn a_catalog_in_between_gets_the_schema_of_a_new_one(database: TestDatabase) {
    migrate(&database).await;
    let new = schema(&database).await;
    for step in ["m0039_proxy_claims", "m0050_import_leases"] {
        let old = another(&database).await;
        old.open_before(step).await.unwrap().close().await.unwrap();
        migrate(&old).await;
        assert_eq!(schema(&old).await, new, "before {step}");
    }
}

async fn every_kind_of_difference_is_seen(database: TestDatabase) {
    migrate(&database).await;
    let new = schema(&database).await;
    let trigger = if database.is_sqlite() {
        "DROP TRIGGER projects_deleted"
    } else {
        "DROP TRIGGER projects_deleted ON projects"
    };
    let mut seen = Vec::new();
    for change in [
        "CREATE TABLE more (id BIGINT)",
        "ALTER TABLE leases ADD COLUMN more BIGINT",
        "ALTER TABLE leases ADD COLUMN more TEXT",
        "ALTER TABLE leases ADD COLUMN more BIGINT DEFAULT 1",
        "ALTER TABLE leases ADD COLUMN more BIGINT NOT NULL DEFAULT 1",
        "ALTER TABLE leases ADD COLUMN more BIGINT REFERENCES users (id)",
        "CREATE INDEX more ON leases (holder)",
        "CREATE UNIQUE INDEX more ON leases (name, holder)",
        "CREATE INDEX more ON leases (holder) WHERE lapses_at > 0",
        trigger,
    ] {
        let changed = database.copy().await.unwrap();
        changed.execute(change).await.unwrap();
        let found = schema(&changed).await;
        assert_ne!(found, new, "{change}");
        assert!(!seen.contains(&found), "{change}");
        seen.push(found);
    }
}
