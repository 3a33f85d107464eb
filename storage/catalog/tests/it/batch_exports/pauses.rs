//! Backfills of exports that are paused: a pause by hand stops windows by the clock, and nothing
//! else.

use super::claims::{LONG, claim};
use super::{HOUR, TestEnv};
use crate::fixture::NOW;
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{BackfillRange, RunStatus, UtcTime};

on_both!(
    a_pause_by_hand_leaves_backfills_alone,
    a_paused_export_can_be_backfilled,
);

async fn a_pause_by_hand_leaves_backfills_alone(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let id = env.made().await.id;
    let asked = catalog.start_export_backfill(actor, place, id, BackfillRange::default());
    let backfill = asked.await.unwrap().id;
    catalog.pause_batch_export(actor, place, id).await.unwrap();
    let found = catalog.export_backfill(place, id, backfill).await;
    assert!(found.unwrap().unwrap().status.is_open());
    assert_eq!(env.backfills_to_plan().await.len(), 1);
    let until = UtcTime(NOW.0 + 3 * HOUR);
    assert_eq!(catalog.plan_export_windows(until).await.unwrap(), 0);
}

async fn a_paused_export_can_be_backfilled(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let id = env.made().await.id;
    catalog.pause_batch_export(actor, place, id).await.unwrap();
    let asked = catalog.start_export_backfill(actor, place, id, BackfillRange::default());
    let backfill = asked.await.unwrap().id;
    assert_eq!(env.backfills_to_plan().await.len(), 1);
    assert!(catalog.plan_export_backfill(backfill, 1).await.unwrap());
    let window = (UtcTime(NOW.0 - HOUR), NOW.into());
    let run = catalog.begin_backfill_run(backfill, window).await;
    let run = run.unwrap().unwrap();
    let claimed = claim(&env, LONG).await.unwrap();
    assert_eq!(claimed.run.id, run.id);
    super::claims::record(&env, &claimed, RunStatus::Completed).await;
    let found = catalog.export_backfill(place, id, backfill).await;
    assert_eq!(found.unwrap().unwrap().status, RunStatus::Completed);
    let export = catalog.batch_export(place, id).await.unwrap().unwrap();
    assert!(export.export.paused, "it stays so");
}
