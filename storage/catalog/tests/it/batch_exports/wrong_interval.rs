//! Exports whose stored interval is none: they are left alone until it is corrected.

use super::{TestEnv, new_export};
use crate::fixture::NOW;
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    BackfillRange, BatchExport, BatchExportChange, CatalogError, ChangeError, UtcTime,
};
use uuid::Uuid;

on_both!(
    an_export_of_a_wrong_interval_is_an_error_and_delays_no_other,
    an_export_of_a_wrong_interval_is_neither_resumed_nor_backfilled,
);

/// Five hours after the creation of the exports.
const LATER: UtcTime = UtcTime(NOW.0 + 5 * super::HOUR);

/// Creates an export, and spoils its interval behind the catalog's back.
async fn wrong(env: &TestEnv, database: &TestDatabase, is_paused: bool) -> Uuid {
    let mut new = new_export();
    new.paused = is_paused;
    let id = env.make(new).await.unwrap().id;
    let spoilt = database.execute("UPDATE batch_exports SET \"interval\" = 'fortnight'");
    spoilt.await.unwrap();
    id
}

async fn read(env: &TestEnv, id: Uuid) -> BatchExport {
    let found = env.fixture.catalog.batch_export(env.place(), id).await;
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

async fn an_export_of_a_wrong_interval_is_an_error_and_delays_no_other(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    let id = wrong(&env, &database, false).await;
    let before = read(&env, id).await;
    let other = env.made().await.id;
    assert_names(id, catalog.plan_export_windows(LATER).await);
    assert_eq!(read(&env, id).await, before, "it is left alone");
    assert_eq!(read(&env, other).await.runs_count, 5);

    let corrected = BatchExportChange {
        interval: Some("every 30 minutes".to_owned()),
        ..BatchExportChange::default()
    };
    let changed = catalog.update_batch_export(env.writer(), id, corrected);
    changed.await.unwrap();
    assert_eq!(catalog.plan_export_windows(LATER).await.unwrap(), 10);
}

async fn an_export_of_a_wrong_interval_is_neither_resumed_nor_backfilled(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let id = wrong(&env, &database, true).await;
    let before = read(&env, id).await;
    let range = BackfillRange::default();
    let asked = catalog.start_export_backfill(actor, place, id, range);
    assert_names(id, asked.await);
    let resumed = catalog.unpause_batch_export(actor, place, id, false);
    assert_names(id, resumed.await);
    assert_eq!(read(&env, id).await, before);
}
