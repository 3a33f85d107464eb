//! Exports whose stored interval is none: they are left alone until it is corrected.

use super::{TestEnv, new_export};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{BatchExport, CatalogError, ChangeError, UtcTime};
use millrace_exports::{
    BackfillRange, Backfills, BatchExportChange, BatchExports, ExportPlanner, UnknownExportValue,
};
use millrace_organizations::testing::fixture::NOW;
use uuid::Uuid;

on_both!(
    as_many_exports_of_a_wrong_interval_as_are_planned_at_a_time_delay_no_other,
    an_error_of_the_database_is_not_hidden_by_a_wrong_interval,
    an_export_of_a_wrong_interval_is_listed_and_left_alone_until_it_is_corrected,
    an_export_of_a_wrong_interval_is_neither_resumed_nor_backfilled,
);

/// Exports that are planned at a time.
const PLANNED_MAX: usize = 100;
/// Five hours after the creation of the exports.
const LATER: UtcTime = UtcTime(NOW.0 + 5 * super::HOUR);

/// Spoils the intervals of all exports behind the catalog's back.
async fn spoil(database: &TestDatabase) {
    let spoilt = database.execute("UPDATE batch_exports SET \"interval\" = 'fortnight'");
    spoilt.await.unwrap();
}

/// Creates an export of a wrong interval, before all others.
async fn wrong(env: &TestEnv, database: &TestDatabase, is_paused: bool) -> Uuid {
    let mut new = new_export();
    new.paused = is_paused;
    let id = env.make(new).await.unwrap().id;
    spoil(database).await;
    id
}

async fn read(env: &TestEnv, id: Uuid) -> BatchExport {
    let found = BatchExports::new(&env.fixture.catalog)
        .get(env.place(), id)
        .await;
    found.unwrap().unwrap().export
}

/// Asserts that an error names the export and its interval.
fn assert_names<T: std::fmt::Debug>(id: Uuid, refused: Result<T, ChangeError>) {
    let error = refused.unwrap_err();
    assert!(
        matches!(
            &error,
            ChangeError::Catalog(CatalogError::WrongInterval { export_id, interval })
                if *export_id == id && interval == "fortnight"
        ),
        "{error:?}"
    );
}

async fn as_many_exports_of_a_wrong_interval_as_are_planned_at_a_time_delay_no_other(
    database: TestDatabase,
) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    for _ in 0..PLANNED_MAX {
        env.made().await;
    }
    spoil(&database).await;
    assert!(
        !ExportPlanner::new(catalog).has_work().await.unwrap(),
        "nothing to do"
    );
    let other = env.made().await.id;
    assert_eq!(
        ExportPlanner::new(catalog)
            .plan_windows(LATER)
            .await
            .unwrap(),
        5
    );
    assert_eq!(read(&env, other).await.runs_count, 5);
    assert_eq!(
        ExportPlanner::new(catalog)
            .plan_windows(LATER)
            .await
            .unwrap(),
        0
    );
    let unknown = BatchExports::new(catalog).unknown_values().await.unwrap();
    assert_eq!(unknown.len(), PLANNED_MAX);
}

async fn an_error_of_the_database_is_not_hidden_by_a_wrong_interval(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    wrong(&env, &database, false).await;
    env.made().await;
    let rename = async |from: &str, to: &str| {
        let sql = format!("ALTER TABLE {from} RENAME TO {to}");
        database.execute(&sql).await.unwrap();
    };
    rename("batch_export_latest_runs", "elsewhere").await;
    let failed = ExportPlanner::new(catalog)
        .plan_windows(LATER)
        .await
        .unwrap_err();
    let is_hidden = matches!(
        &failed,
        ChangeError::Catalog(CatalogError::WrongInterval { .. })
    );
    assert!(!is_hidden, "{failed:?}");
    rename("elsewhere", "batch_export_latest_runs").await;
    assert_eq!(
        ExportPlanner::new(catalog)
            .plan_windows(LATER)
            .await
            .unwrap(),
        5
    );
}

async fn an_export_of_a_wrong_interval_is_listed_and_left_alone_until_it_is_corrected(
    database: TestDatabase,
) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    let id = wrong(&env, &database, false).await;
    let before = read(&env, id).await;
    assert_eq!(
        ExportPlanner::new(catalog)
            .plan_windows(LATER)
            .await
            .unwrap(),
        0
    );
    assert_eq!(read(&env, id).await, before);
    let unknown = UnknownExportValue {
        export_id: id,
        field: "interval",
        value: "fortnight".to_owned(),
    };
    let listed = BatchExports::new(catalog).unknown_values().await.unwrap();
    assert_eq!(listed, [unknown]);

    let corrected = BatchExportChange {
        interval: Some("every 30 minutes".to_owned()),
        ..BatchExportChange::default()
    };
    let changed = BatchExports::new(catalog).update(env.writer(), id, corrected);
    changed.await.unwrap();
    assert_eq!(
        ExportPlanner::new(catalog)
            .plan_windows(LATER)
            .await
            .unwrap(),
        10
    );
    assert_eq!(
        BatchExports::new(catalog).unknown_values().await.unwrap(),
        []
    );
}

async fn an_export_of_a_wrong_interval_is_neither_resumed_nor_backfilled(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let id = wrong(&env, &database, true).await;
    let before = read(&env, id).await;
    let range = BackfillRange::default();
    let asked = Backfills::new(catalog).start(actor, place, id, range);
    assert_names(id, asked.await);
    let resumed = BatchExports::new(catalog).unpause(actor, place, id, false);
    assert_names(id, resumed.await);
    assert_eq!(read(&env, id).await, before);
}
