//! Pauses and backfills: a pause by hand stops windows by the clock, and nothing else; its backfill
//! has what they have not, also when the interval changes meanwhile.

use super::claims::{LONG, claim};
use super::plan::{at, plan, windows};
use super::{HOUR, TestEnv, new_export};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{RunStatus, UtcTime};
use millrace_exports::{
    Backfills, BatchExportChange, BatchExports, ExportPlanner, ExportRuns, NewBatchExport,
};
use millrace_organizations::testing::fixture::NOW;
use uuid::Uuid;

on_both!(
    a_new_interval_makes_no_window_of_what_a_pause_skipped,
    a_backfill_of_a_pause_begins_where_windows_by_the_clock_end,
    a_start_that_is_moved_makes_no_window_of_what_a_pause_skipped,
    a_change_that_resumes_and_moves_the_start_skips_the_pause,
    a_pause_in_which_no_window_was_skipped_has_nothing_to_backfill,
    a_pause_by_hand_leaves_backfills_alone,
    a_paused_export_can_be_backfilled,
);

async fn a_pause_by_hand_leaves_backfills_alone(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let id = env.made().await.id;
    let backfill = env.backfill(id).await;
    BatchExports::new(catalog)
        .pause(actor, place, id)
        .await
        .unwrap();
    let found = Backfills::new(catalog).get(place, id, backfill).await;
    assert!(found.unwrap().unwrap().status.is_open());
    assert_eq!(env.backfills_to_plan().await.len(), 1);
    let until = UtcTime(NOW.0 + 3 * HOUR);
    assert_eq!(
        ExportPlanner::new(catalog)
            .plan_windows(until)
            .await
            .unwrap(),
        0
    );
}

async fn a_paused_export_can_be_backfilled(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let id = env.made().await.id;
    BatchExports::new(catalog)
        .pause(actor, place, id)
        .await
        .unwrap();
    let backfill = env.backfill(id).await;
    assert_eq!(env.backfills_to_plan().await.len(), 1);
    assert!(Backfills::new(catalog).plan(backfill, 1).await.unwrap());
    let window = (UtcTime(NOW.0 - HOUR), NOW.into());
    let run = ExportRuns::new(catalog)
        .begin_of_backfill(backfill, window)
        .await;
    let run = run.unwrap().unwrap();
    let claimed = claim(&env, LONG).await.unwrap();
    assert_eq!(claimed.run.id, run.id);
    super::claims::record(&env, &claimed, RunStatus::Completed).await;
    let found = Backfills::new(catalog).get(place, id, backfill).await;
    assert_eq!(found.unwrap().unwrap().status, RunStatus::Completed);
    let export = BatchExports::new(catalog)
        .get(place, id)
        .await
        .unwrap()
        .unwrap();
    assert!(export.export.paused, "it stays so");
}

async fn change_to_days(env: &TestEnv, export_id: Uuid) {
    let change = BatchExportChange {
        interval: Some("day".to_owned()),
        ..BatchExportChange::default()
    };
    let catalog = &env.fixture.catalog;
    let changed = BatchExports::new(catalog).update(env.writer(), export_id, change);
    changed.await.unwrap();
}

/// Case of a node that is down and keeps the watermark where it is.
async fn a_new_interval_makes_no_window_of_what_a_pause_skipped(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let id = env.made().await.id;
    plan(&env, at(1, 0)).await;
    env.fixture.pass_micros(2 * HOUR + HOUR / 2);
    BatchExports::new(catalog)
        .pause(actor, place, id)
        .await
        .unwrap();
    env.fixture.pass_micros(2 * HOUR);
    let unpaused = BatchExports::new(catalog).unpause(actor, place, id, true);
    unpaused.await.unwrap();
    change_to_days(&env, id).await;
    // Paused from 2:30 to 4:30: the backfill has the windows from 2:00 to 4:00.
    plan(&env, at(2, 0)).await;
    assert_eq!(windows(&env, id).await, [(0, 60), (60, 120)]);
    plan(&env, at(48, 0)).await;
    assert_eq!(
        windows(&env, id).await,
        [(0, 60), (60, 120), (240, 1_440), (1_440, 2_880)]
    );
}

async fn a_backfill_of_a_pause_begins_where_windows_by_the_clock_end(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let id = env.made().await.id;
    plan(&env, at(2, 0)).await;
    env.fixture.pass_micros(2 * HOUR + HOUR / 2);
    BatchExports::new(catalog)
        .pause(actor, place, id)
        .await
        .unwrap();
    change_to_days(&env, id).await;
    env.fixture.pass_micros(50 * HOUR);
    let unpaused = BatchExports::new(catalog).unpause(actor, place, id, true);
    let backfill = unpaused.await.unwrap().backfill.unwrap();
    assert_eq!(backfill.start_at, Some(at(2, 30)));
    plan(&env, at(72, 0)).await;
    assert_eq!(
        windows(&env, id).await,
        [(0, 60), (60, 120), (2_880, 4_320)]
    );
    // The first day of the range has two hours that were exported.
    let open = env.backfills_to_plan().await;
    assert_eq!(open.len(), 1);
    assert_eq!(open[0].windows_from, Some(at(2, 0)));
    let by_hand = env.backfill(id).await;
    let open = env.backfills_to_plan().await;
    let by_hand = open.iter().find(|open| open.backfill.id == by_hand);
    assert_eq!(by_hand.unwrap().windows_from, None);
}

async fn move_start(env: &TestEnv, export_id: Uuid, start_at: Option<UtcTime>) {
    let change = BatchExportChange {
        start_at: Some(start_at),
        ..BatchExportChange::default()
    };
    let catalog = &env.fixture.catalog;
    let changed = BatchExports::new(catalog).update(env.writer(), export_id, change);
    changed.await.unwrap();
}

async fn made_to_start(env: &TestEnv, start_at: Option<UtcTime>) -> Uuid {
    let new = NewBatchExport {
        start_at,
        ..new_export()
    };
    env.make(new).await.unwrap().id
}

/// Windows by the clock of an export from 0:00 to 6:00 that was paused from 2:30 to 4:30.
const BESIDE_PAUSE: [(i64, i64); 4] = [(0, 60), (60, 120), (240, 300), (300, 360)];

async fn a_start_that_is_moved_makes_no_window_of_what_a_pause_skipped(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    // Start with which an export is made, and the one that it has after its pause.
    let table = [
        (Some(at(900, 0)), None),
        (Some(at(900, 0)), Some(at(900, 0))),
        (Some(at(3, 30)), None),
        (None, Some(at(900, 0))),
        (None, None),
    ];
    let mut ids = Vec::new();
    for (start_at, _) in table {
        ids.push(made_to_start(&env, start_at).await);
    }
    plan(&env, at(1, 0)).await;
    env.fixture.pass_micros(2 * HOUR + HOUR / 2);
    for id in &ids {
        BatchExports::new(catalog)
            .pause(actor, place, *id)
            .await
            .unwrap();
    }
    env.fixture.pass_micros(2 * HOUR);
    for (id, (_, start_at)) in ids.iter().zip(table) {
        let unpaused = BatchExports::new(catalog).unpause(actor, place, *id, true);
        unpaused.await.unwrap();
        move_start(&env, *id, start_at).await;
    }
    plan(&env, at(3, 0)).await;
    for id in &ids {
        move_start(&env, *id, None).await;
    }
    plan(&env, at(6, 0)).await;
    let open = env.backfills_to_plan().await;
    for (id, case) in ids.iter().zip(table) {
        assert_eq!(windows(&env, *id).await, BESIDE_PAUSE, "{case:?}");
        let of_pause = open.iter().find(|open| open.export.id == *id).unwrap();
        assert_eq!(of_pause.windows_from, Some(at(2, 0)), "{case:?}");
    }
}

async fn a_change_that_resumes_and_moves_the_start_skips_the_pause(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let id = made_to_start(&env, Some(at(900, 0))).await;
    env.fixture.pass_micros(2 * HOUR + HOUR / 2);
    BatchExports::new(catalog)
        .pause(actor, place, id)
        .await
        .unwrap();
    env.fixture.pass_micros(2 * HOUR);
    let change = BatchExportChange {
        paused: Some(false),
        start_at: Some(None),
        ..BatchExportChange::default()
    };
    let changed = BatchExports::new(catalog).update(env.writer(), id, change);
    changed.await.unwrap();
    plan(&env, at(6, 0)).await;
    assert_eq!(windows(&env, id).await, BESIDE_PAUSE);
}

/// Case of a node whose clock, and so the watermark, is ahead of the catalog's.
async fn a_pause_in_which_no_window_was_skipped_has_nothing_to_backfill(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let id = env.made().await.id;
    env.fixture.pass_micros(2 * HOUR + HOUR / 2);
    assert_eq!(plan(&env, at(3, 0)).await, 3);
    BatchExports::new(catalog)
        .pause(actor, place, id)
        .await
        .unwrap();
    env.fixture.pass_micros(HOUR);
    let unpaused = BatchExports::new(catalog).unpause(actor, place, id, true);
    let backfill = unpaused.await.unwrap().backfill.unwrap();
    let ended = (backfill.status, backfill.total_runs);
    assert_eq!(ended, (RunStatus::Completed, Some(0)));
    assert!(backfill.message.is_some());
}
