//! Copies of a catalog to another database, of either kind, and back.

use millrace_catalog::leases::CLEANUP_LEASE;
use millrace_catalog::testing::lists::{Sizes, add_lists};
use millrace_catalog::testing::{DatabaseKind, TestDatabase, random_uuid};
use millrace_catalog::{Catalog, CopyError};
use millrace_organizations::testing::test_env::TestEnv;
use millrace_organizations::{NewRole, Roles};
use std::time::Duration;
use uuid::Uuid;

on_both!(
    a_copy_has_all_rows_and_goes_on_with_the_numbers,
    only_a_catalog_that_nobody_uses_is_copied_and_only_to_an_empty_database,
);

const SIZES: Sizes = Sizes {
    members: 3,
    invites: 3,
    activity: 700,
    projects: 3,
    others: 3,
};

/// Rows of tables that no list shows.
fn hidden_rows(database: &TestDatabase) -> Vec<String> {
    let (uuid, id) = (
        random_uuid(database),
        database.uuid_literal(Uuid::from_u128(7)),
    );
    let project = "(SELECT min(id) FROM projects)";
    let plugin = "(SELECT min(id) FROM plugins)";
    let user = "(SELECT min(id) FROM users)";
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)";
    [
        format!(
            "persons (team_id, id, created_at, is_identified, is_deleted, properties, version) \
             {numbers} SELECT i, {uuid}, i, true, false, '{{}}', i FROM n"
        ),
        format!(
            "person_distinct_ids (team_id, distinct_id, person_id, version, identified_at, \
             identified_by) {numbers} SELECT i / 9, 'd' || i, {uuid}, i, i, {id} FROM n"
        ),
        format!(
            "groups (team_id, group_type, group_key, created_at, properties, version) \
             {numbers} SELECT 1, 'g' || i / 9, 'k' || i, i, '{{}}', i FROM n"
        ),
        format!("group_types VALUES ({project}, 'g', 0)"),
        format!("person_backlogs VALUES ({project}, 1, {id}, 2, 3, NULL)"),
        format!("person_new_ids VALUES ({project}, 1, 2, 3, 4, 5)"),
        format!("import_quotas VALUES ({project}, 1, 2, 3, 4, 5)"),
        format!("import_leases VALUES ({id}, {project}, {id}, 1, 2, 3)"),
        format!("clickhouse_users VALUES ({project}, 'p', 't', 1)"),
        "idempotency_keys VALUES ('k', 'h', 200, 'é', 1)".to_owned(),
        "idempotency_bytes VALUES ('k', 1, 2)".to_owned(),
        format!("deleted_organizations VALUES ({id})"),
        format!("deleted_batch_exports VALUES ({id})"),
        "deleted_projects VALUES (999)".to_owned(),
        "deleted_plugins VALUES (999)".to_owned(),
        format!("withdrawn_plugins VALUES ({plugin})"),
        format!("unused_users VALUES ({user}, 1)"),
        format!("sessions VALUES ({id}, {user}, 'h', 'link', 'b', 1, 2, 3)"),
        format!("sign_in_links VALUES ({id}, {user}, 'h', 'mail', 1, 2)"),
        format!("plugin_source_files VALUES ({plugin}, 'a.ts', 'export', 1)"),
        "ingest_nodes (name, host, state, published_at, started_at) \
         VALUES ('n', 'h', 'stopped', 1, 2)"
            .to_owned(),
        format!(
            "batch_export_backfills (id, batch_export_id, status, finished_runs, created_at, \
             last_updated_at) SELECT {uuid}, id, 'Completed', 0, 1, 1 FROM batch_exports"
        ),
        "batch_export_logs (batch_export_id, logged_at, level, message) \
         SELECT id, 1, 'INFO', 'm' FROM batch_exports"
            .to_owned(),
    ]
    .map(|rest| format!("INSERT INTO {rest}"))
    .into()
}

/// Makes a catalog with rows in all tables, of whose projects the last one is gone.
async fn fill(database: &TestDatabase) {
    let env = TestEnv::new(database).await;
    let role = NewRole::named("Everybody");
    let role = Roles::new(&env.catalog).create(&env.owner, env.organization, role);
    role.await.unwrap();
    add_lists(database, env.ann.id, &SIZES).await;
    for row in hidden_rows(database) {
        let inserted = database.execute(&row).await;
        inserted.unwrap_or_else(|error| panic!("{row}: {error}"));
    }
    let last = "DELETE FROM projects WHERE id = (SELECT max(id) FROM projects)";
    database.execute(last).await.unwrap();
    env.catalog.close().await.unwrap();
}

/// Rows of all tables, but for the times of migrations.
async fn rows(database: &TestDatabase) -> Vec<String> {
    let mut rows = database.contents().await.unwrap();
    rows.retain(|row| !row.starts_with("seaql_migrations "));
    rows
}

/// Names of the tables of rows, one for each row; SQLite's own is left out.
fn tables(rows: &[String]) -> Vec<&str> {
    let names = rows.iter().filter_map(|row| row.split(' ').next());
    names.filter(|name| *name != "sqlite_sequence").collect()
}

/// Copies a catalog to a new database.
async fn copied(from: &TestDatabase, kind: DatabaseKind) -> TestDatabase {
    let to = TestDatabase::of(kind).await;
    let [source, target] = [from, &to].map(TestDatabase::url);
    let source = Catalog::open(source).await.unwrap();
    let target = Catalog::open(target).await.unwrap();
    let id = source.id().await.unwrap();
    let count = source.copy_rows_to(&target).await.unwrap();
    assert_eq!(target.id().await.unwrap(), id);
    assert_ne!(source.id().await.unwrap(), id, "the former one has another");
    for catalog in [source, target] {
        catalog.close().await.unwrap();
    }
    let found = rows(&to).await;
    assert_eq!(tables(&found).len() as u64, count);
    to
}

/// Adds a project, and returns its number.
async fn next_project(database: &TestDatabase) -> i64 {
    let uuid = random_uuid(database);
    let added = format!(
        "INSERT INTO projects (uuid, organization_id, name, api_token_imported, anonymize_ips, \
         timezone, created_at, updated_at) SELECT {uuid}, id, 'next', false, false, 'UTC', 1, 1 \
         FROM organizations WHERE name = 'Acme' RETURNING CAST(id AS TEXT)"
    );
    database.first_column(&added).await.unwrap()[0]
        .parse()
        .unwrap()
}

async fn a_copy_has_all_rows_and_goes_on_with_the_numbers(database: TestDatabase) {
    fill(&database).await;
    let of_each = tables(&rows(&database).await).join(" ");
    let last = "SELECT CAST(max(id) + 1 AS TEXT) FROM projects";
    let deleted: i64 = database.first_column(last).await.unwrap()[0]
        .parse()
        .unwrap();
    // Its JSON is written as the catalog writes it, which the rows above are not.
    let kind = database.kind();
    let first = copied(&database, kind).await;
    assert_eq!(tables(&rows(&first).await).join(" "), of_each);
    for other in [DatabaseKind::Sqlite, DatabaseKind::Postgres] {
        let before = rows(&first).await;
        let there = copied(&first, other).await;
        assert_eq!(next_project(&there).await, deleted + 1, "{other:?}");
        let undo = "DELETE FROM projects WHERE name = 'next'";
        there.execute(undo).await.unwrap();
        let unmark = format!(
            "DELETE FROM deleted_projects WHERE team_id = {}",
            deleted + 1
        );
        there.execute(&unmark).await.unwrap();
        let back = copied(&there, kind).await;
        assert_eq!(next_project(&back).await, deleted + 2, "{other:?}");
        let after = rows(&copied(&there, kind).await).await;
        // The second copy has the id that the first one left, and the number of the next project.
        let others = ["catalog_ids ", "sqlite_sequence 'projects'"];
        let is_same = |row: &&String| !others.iter().any(|other| row.starts_with(other));
        let [before, after] = [&before, &after].map(|rows| rows.iter().filter(is_same));
        assert!(after.eq(before), "{other:?}");
    }
}

async fn only_a_catalog_that_nobody_uses_is_copied_and_only_to_an_empty_database(
    database: TestDatabase,
) {
    fill(&database).await;
    let used = TestDatabase::of(database.kind()).await;
    fill(&used).await;
    let empty = TestDatabase::of(database.kind()).await;
    let before = rows(&used).await;
    let catalogs = [&database, &used, &empty].map(TestDatabase::url);
    let mut opened = Vec::new();
    for url in catalogs {
        opened.push(Catalog::open(url).await.unwrap());
    }
    let [from, used_catalog, empty_catalog] = &opened[..] else {
        panic!("three catalogs");
    };
    let error = from.copy_rows_to(used_catalog).await.unwrap_err();
    assert!(matches!(error, CopyError::NotEmpty { .. }), "{error:?}");
    assert_eq!(rows(&used).await, before);

    let (holder, time) = (Uuid::from_u128(9), Duration::from_secs(60));
    let held = from.hold_lease(CLEANUP_LEASE, holder, time).await;
    assert!(held.unwrap());
    let id = from.id().await.unwrap();
    let error = from.copy_rows_to(empty_catalog).await.unwrap_err();
    assert!(matches!(error, CopyError::InUse { .. }), "{error:?}");
    assert!(error.to_string().contains("stop all servers"), "{error}");
    assert_eq!(from.id().await.unwrap(), id);
    from.release_lease(CLEANUP_LEASE, holder).await.unwrap();
    from.copy_rows_to(empty_catalog).await.unwrap();
}
