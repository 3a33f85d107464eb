//! Cost of showing a person with many devices.

use super::super::device_properties::first_identified;
use super::identities::update_of;
use crate::state::{ApplyOptions, PersonStore};
use millrace_catalog::testing::{DatabaseKind, TestDatabase};
use millrace_catalog::{Catalog, on_both};
use millrace_organizations::{BootstrapOptions, bootstrap};
use millrace_rows::UpdateKind;
use sea_orm::sea_query::{PostgresQueryBuilder, SqliteQueryBuilder};
use uuid::Uuid;

on_both!(
    the_first_devices_of_a_user_are_read_without_the_others,
    a_person_without_devices_costs_no_statement_for_their_properties,
);

const DEVICES: i64 = 20_000;
const USER: Uuid = Uuid::from_u128(7);

/// Creates the devices, those that were identified last first.
async fn make(database: &TestDatabase, project_id: i64) {
    let (numbers, user) = match database.kind() {
        DatabaseKind::Sqlite => (
            "WITH RECURSIVE numbers(n) AS \
             (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {})",
            format!("x'{}'", USER.simple()),
        ),
        DatabaseKind::Postgres => (
            "WITH numbers AS (SELECT n FROM generate_series(1, {}) AS n)",
            format!("'{USER}'::uuid"),
        ),
    };
    let numbers = numbers.replace("{}", &DEVICES.to_string());
    let sql = format!(
        "{numbers} INSERT INTO person_distinct_ids \
         (team_id, distinct_id, person_id, identified_at, identified_by, version) \
         SELECT {project_id}, 'device ' || n, {user}, {DEVICES} - n, {user}, 1 FROM numbers"
    );
    database.execute(&sql).await.unwrap();
}

async fn the_first_devices_of_a_user_are_read_without_the_others(database: TestDatabase) {
    let catalog = Catalog::open(database.url()).await.unwrap();
    let made = bootstrap(&catalog, BootstrapOptions::default()).await;
    let project_id = made.unwrap().unwrap().project_id.0;
    make(&database, project_id).await;
    let keys = [(project_id, USER), (project_id, Uuid::from_u128(8))];
    let statement = first_identified(&keys).unwrap();
    let plan = match database.kind() {
        DatabaseKind::Sqlite => {
            let sql = statement.to_string(SqliteQueryBuilder);
            database.sqlite_plan(&sql).await.unwrap()
        }
        DatabaseKind::Postgres => {
            database
                .execute("ANALYZE person_distinct_ids")
                .await
                .unwrap();
            let sql = statement.to_string(PostgresQueryBuilder);
            let sql = format!("EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF) {sql}");
            database.first_column(&sql).await.unwrap()
        }
    };
    let plan = plan.join("\n");
    assert_eq!(
        plan.matches("person_distinct_ids_identified").count(),
        keys.len(),
        "{plan}"
    );
    for sorting in ["TEMP B-TREE", "SCAN person", "Sort"] {
        assert!(!plan.contains(sorting), "{sorting}: {plan}");
    }
    if database.kind() == DatabaseKind::Postgres {
        // Rows that were read of 20 000.
        assert!(
            plan.contains("rows=100 ") || plan.contains("rows=100.00 "),
            "{plan}"
        );
        assert!(!plan.contains("rows=20000"), "{plan}");
    }
}

async fn a_person_without_devices_costs_no_statement_for_their_properties(database: TestDatabase) {
    let catalog = Catalog::open(database.url()).await.unwrap();
    let made = bootstrap(&catalog, BootstrapOptions::default()).await;
    let project_id = made.unwrap().unwrap().project_id;
    let of = |kind, id, device, at| {
        let mut update = update_of(kind, (id, device, at));
        update.project_id = project_id;
        update
    };
    let mut updates = [
        of(UpdateKind::Identify, "u1", "", 1),
        of(UpdateKind::Identify, "u2", "d", 2),
        of(UpdateKind::Properties, "d", "", 3),
    ];
    let options = ApplyOptions::default();
    for (update, statements) in updates.iter_mut().zip([2, 3, 4]) {
        let from = PersonStore::new(&catalog).progress().await.unwrap();
        update.position.index = update.timestamp.0;
        let applying =
            PersonStore::new(&catalog).apply(&from, std::slice::from_ref(update), options);
        applying.await.unwrap().unwrap();
        let (counted, count) = catalog.counted();
        let changed = PersonStore::new(&counted)
            .changed_persons(from.version, None, 100)
            .await;
        assert_eq!(
            changed.unwrap().iter().filter(|it| !it.is_deleted).count(),
            1
        );
        // Persons and ids; then sizes of devices' records, and properties if there are any.
        let sent = count.take();
        assert_eq!(sent.len(), statements, "{sent:#?}");
    }
}
