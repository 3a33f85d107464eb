//! Windows by the clock: those that come next, and those that are skipped.

use super::claims::{LONG, claim, record};
use super::{HOUR, TestEnv, new_export};
use millrace_catalog::testing::{DatabaseKind, TestDatabase, holding};
use millrace_catalog::{
    BatchExportRun, NodeStarts, Nodes, Published, RunStatus, UtcTime, Watermarks,
};
use millrace_exports::{
    BatchExportChange, BatchExports, ExportPlanner, ExportRuns, NewBatchExport, RunFilter,
    RunOrder, RunRoundRobin,
};
use millrace_organizations::testing::fixture::{ALL, NOW};
use std::time::Duration;
use uuid::Uuid;

on_both!(
    windows_follow_one_another_from_the_one_the_export_is_made_in,
    a_window_is_planned_once_by_concurrent_planners,
    windows_are_within_the_times_that_an_export_may_run,
    a_new_interval_leaves_no_gap,
    windows_that_end_during_a_pause_are_skipped,
    pauses_during_which_nothing_was_planned_are_skipped_too,
    a_start_that_is_moved_earlier_is_planned_from_then_on,
    a_pause_time_written_by_a_customer_does_not_change_the_plan,
    organizations_take_turns_with_the_exports_that_are_due,
    lag_is_the_age_of_the_oldest_undelivered_window,
    there_is_work_while_something_is_due,
);

/// Time limit of what must not wait for a row.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Time after the creation of the export, which is at a full hour.
pub fn at(hours: i64, minutes: i64) -> UtcTime {
    UtcTime(NOW.0 + hours * HOUR + minutes * HOUR / 60)
}

async fn runs(env: &TestEnv, export_id: Uuid) -> Vec<BatchExportRun> {
    let filter = RunFilter {
        order: RunOrder::EarliestWindowFirst,
        ..RunFilter::default()
    };
    let catalog = &env.fixture.catalog;
    let listed = ExportRuns::new(catalog).list(env.place(), export_id, filter, ALL);
    listed.await.unwrap().unwrap().rows
}

/// Planned windows, in minutes since the export was created.
pub async fn windows(env: &TestEnv, export_id: Uuid) -> Vec<(i64, i64)> {
    let minutes = |at: UtcTime| (at.0 - NOW.0) / (HOUR / 60);
    let window = |run: BatchExportRun| {
        let start = run.data_interval_start.unwrap();
        (minutes(start), minutes(run.data_interval_end))
    };
    runs(env, export_id).await.into_iter().map(window).collect()
}

pub async fn plan(env: &TestEnv, until: UtcTime) -> usize {
    ExportPlanner::new(&env.fixture.catalog)
        .plan_windows(until)
        .await
        .unwrap()
}

async fn windows_follow_one_another_from_the_one_the_export_is_made_in(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    env.fixture.pass_micros(HOUR / 4);
    let id = env.made().await.id;
    assert_eq!(plan(&env, at(0, 59)).await, 0, "it has not ended");
    assert_eq!(plan(&env, at(1, 0)).await, 1);
    assert_eq!(plan(&env, at(1, 59)).await, 0);
    assert_eq!(
        plan(&env, at(4, 1)).await,
        3,
        "what was missed is made up for"
    );
    let expected = [(0, 60), (60, 120), (120, 180), (180, 240)];
    assert_eq!(windows(&env, id).await, expected);
    let export = BatchExports::new(&env.fixture.catalog)
        .get(env.place(), id)
        .await;
    let export = export.unwrap().unwrap().export;
    assert_eq!(export.live_since, Some(at(0, 0)));
    assert_eq!(
        (export.windows_until, export.runs_count),
        (Some(at(4, 0)), 4)
    );
}

async fn a_window_is_planned_once_by_concurrent_planners(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let id = env.made().await.id;
    let planners = (0..4).map(|_| {
        let catalog = env.fixture.catalog.clone();
        tokio::spawn(async move {
            ExportPlanner::new(&catalog)
                .plan_windows(at(300, 0))
                .await
                .unwrap()
        })
    });
    let planners: Vec<_> = planners.collect();
    let mut planned = 0;
    for planner in planners {
        planned += planner.await.unwrap();
    }
    let ordinals: Vec<i64> = runs(&env, id).await.iter().map(|run| run.ordinal).collect();
    assert_eq!(planned, 300, "a hundred at a time");
    assert_eq!(
        ordinals,
        (1..=100).collect::<Vec<_>>(),
        "and the page has a hundred"
    );
}

async fn windows_are_within_the_times_that_an_export_may_run(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let new = NewBatchExport {
        start_at: Some(at(2, 30)),
        end_at: Some(at(4, 30)),
        ..new_export()
    };
    let id = env.make(new).await.unwrap().id;
    assert_eq!(plan(&env, at(9, 0)).await, 2);
    assert_eq!(windows(&env, id).await, [(120, 180), (180, 240)]);
    let longer = BatchExportChange {
        end_at: Some(Some(at(11, 0))),
        ..BatchExportChange::default()
    };
    let catalog = &env.fixture.catalog;
    let changed = BatchExports::new(catalog).update(env.writer(), id, longer);
    changed.await.unwrap();
    assert_eq!(
        plan(&env, at(10, 0)).await,
        1,
        "what it was not to run in is passed over"
    );
    assert_eq!(windows(&env, id).await[2..], [(540, 600)]);
}

async fn a_new_interval_leaves_no_gap(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let id = env.made().await.id;
    plan(&env, at(1, 0)).await;
    for (interval, until) in [("every 25 minutes", at(1, 50)), ("hour", at(3, 0))] {
        let change = BatchExportChange {
            interval: Some(interval.to_owned()),
            ..BatchExportChange::default()
        };
        let catalog = &env.fixture.catalog;
        let changed = BatchExports::new(catalog).update(env.writer(), id, change);
        changed.await.unwrap();
        plan(&env, until).await;
    }
    let windows = windows(&env, id).await;
    let ends = windows.iter().map(|(_, end)| *end);
    let starts = windows.iter().skip(1).map(|(start, _)| *start);
    assert!(starts.eq(ends.take(windows.len() - 1)), "{windows:?}");
    assert_eq!(windows.first().unwrap().0, 0);
    assert_eq!(windows.last().unwrap().1, 180);
}

async fn windows_that_end_during_a_pause_are_skipped(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let id = env.made().await.id;
    plan(&env, at(1, 0)).await;
    env.fixture.pass_micros(HOUR + HOUR / 2);
    BatchExports::new(catalog)
        .pause(actor, place, id)
        .await
        .unwrap();
    assert_eq!(plan(&env, at(5, 0)).await, 0);
    env.fixture.pass_micros(2 * HOUR);
    let unpaused = BatchExports::new(catalog).unpause(actor, place, id, false);
    unpaused.await.unwrap();
    assert_eq!(plan(&env, at(5, 0)).await, 2);
    assert_eq!(windows(&env, id).await, [(0, 60), (180, 240), (240, 300)]);
    env.fixture.pass_micros(2 * HOUR);
    BatchExports::new(catalog)
        .pause(actor, place, id)
        .await
        .unwrap();
    env.fixture.pass_micros(HOUR / 60);
    let unpaused = BatchExports::new(catalog).unpause(actor, place, id, false);
    unpaused.await.unwrap();
    assert_eq!(plan(&env, at(6, 0)).await, 1, "no window ended meanwhile");
}

/// Case of a node that is down and keeps the watermark where it is.
async fn pauses_during_which_nothing_was_planned_are_skipped_too(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let id = env.made().await.id;
    plan(&env, at(1, 0)).await;
    env.fixture.pass_micros(2 * HOUR + HOUR / 2);
    for _ in 0..2 {
        BatchExports::new(catalog)
            .pause(actor, place, id)
            .await
            .unwrap();
        env.fixture.pass_micros(2 * HOUR);
        let unpaused = BatchExports::new(catalog).unpause(actor, place, id, true);
        let made_up_for = unpaused.await.unwrap().backfill.unwrap();
        assert_eq!(
            made_up_for.end_at.unwrap().0 - made_up_for.start_at.unwrap().0,
            2 * HOUR
        );
        env.fixture.pass_micros(HOUR);
    }
    // Paused from 2:30 to 4:30, and from 5:30 to 7:30.
    plan(&env, at(9, 0)).await;
    assert_eq!(
        windows(&env, id).await,
        [(0, 60), (60, 120), (240, 300), (420, 480), (480, 540)]
    );
}

async fn a_start_that_is_moved_earlier_is_planned_from_then_on(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    for (start_at, expected) in [
        (Some(at(3, 30)), (180, 240)),
        (Some(at(0, 30)), (0, 60)),
        (None, (0, 60)),
    ] {
        let new = NewBatchExport {
            start_at: Some(at(900, 0)),
            ..new_export()
        };
        let id = env.make(new).await.unwrap().id;
        plan(&env, at(2, 0)).await;
        assert_eq!(windows(&env, id).await, []);
        let earlier = BatchExportChange {
            start_at: Some(start_at),
            ..BatchExportChange::default()
        };
        let changed = BatchExports::new(catalog).update(env.writer(), id, earlier);
        changed.await.unwrap();
        plan(&env, at(5, 0)).await;
        assert_eq!(windows(&env, id).await[0], expected, "{start_at:?}");
        let export = BatchExports::new(catalog).get(env.place(), id).await;
        let export = export.unwrap().unwrap().export;
        assert_eq!(export.live_since, Some(at(0, 0)), "{start_at:?}");
    }
}

async fn a_pause_time_written_by_a_customer_does_not_change_the_plan(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let written = [None, Some(at(0, 30)), Some(at(90_000, 0))];
    let mut ids = Vec::new();
    for _ in written {
        ids.push(env.made().await.id);
    }
    env.fixture.pass_micros(HOUR + HOUR / 2);
    for (id, written) in ids.iter().zip(written) {
        BatchExports::new(catalog)
            .pause(actor, place, *id)
            .await
            .unwrap();
        let change = BatchExportChange {
            last_paused_at: Some(written),
            ..BatchExportChange::default()
        };
        let changed = BatchExports::new(catalog).update(env.writer(), *id, change);
        changed.await.unwrap();
    }
    plan(&env, at(4, 0)).await;
    for id in &ids {
        assert_eq!(windows(&env, *id).await, [(0, 60)]);
    }
    env.fixture.pass_micros(2 * HOUR);
    for id in &ids {
        let unpaused = BatchExports::new(catalog).unpause(actor, place, *id, true);
        let backfill = unpaused.await.unwrap().backfill.unwrap();
        let paused = (backfill.start_at, backfill.end_at);
        assert_eq!(paused, (Some(at(1, 30)), Some(at(3, 30))));
    }
    plan(&env, at(4, 0)).await;
    for id in &ids {
        assert_eq!(windows(&env, *id).await, [(0, 60), (180, 240)]);
    }
}

async fn organizations_take_turns_with_the_exports_that_are_due(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    // More exports than are planned at a time, and due for longer than the other one's.
    for _ in 0..120 {
        env.made().await;
    }
    // From then on it is known when each has its next window.
    assert_eq!(plan(&env, at(0, 59)).await, 0);
    assert_eq!(plan(&env, at(0, 59)).await, 0);
    env.fixture.pass_micros(HOUR);
    let other = env.foreign_export().await.id;
    assert_eq!(plan(&env, at(0, 59)).await, 0);
    assert_eq!(plan(&env, at(2, 0)).await, 2 * 99 + 1);
    let found = BatchExports::new(catalog)
        .get(env.foreign_place(), other)
        .await;
    let found = found.unwrap().unwrap();
    assert_eq!(found.export.runs_count, 1, "among the first");
    assert_eq!(plan(&env, at(2, 0)).await, 2 * 21);
}

async fn lag_is_the_age_of_the_oldest_undelivered_window(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    assert_eq!(
        ExportPlanner::new(catalog).lag().await.unwrap(),
        Duration::ZERO
    );
    env.made().await;
    plan(&env, at(0, 0)).await;
    env.fixture.pass_micros(HOUR);
    assert_eq!(
        ExportPlanner::new(catalog).lag().await.unwrap(),
        Duration::ZERO
    );
    env.fixture.pass_micros(HOUR / 2);
    let half_an_hour = Duration::from_secs(1_800);
    assert_eq!(
        ExportPlanner::new(catalog).lag().await.unwrap(),
        half_an_hour,
        "it is not planned"
    );
    plan(&env, at(1, 0)).await;
    assert_eq!(
        ExportPlanner::new(catalog).lag().await.unwrap(),
        half_an_hour,
        "it has not run"
    );
}

async fn there_is_work_while_something_is_due(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    let work = async || ExportPlanner::new(catalog).has_work().await.unwrap();
    let starts = NodeStarts::default();
    let pass = async |node: &str, until| {
        let watermarks = Some(Watermarks::of(until));
        let published = Nodes::new(catalog).publish(node, &starts, watermarks).await;
        assert_eq!(published.unwrap(), Published::Done);
    };
    for node in ["fast", "slow"] {
        let registered = Nodes::new(catalog).register(node, "host", &starts);
        registered.await.unwrap();
    }
    assert!(!work().await, "there is no export");
    let export_id = env.made().await.id;
    assert!(work().await, "nobody knows when its first window ends");
    assert_eq!(plan(&env, at(0, 0)).await, 0);
    assert!(!work().await, "nothing has ended");
    pass("slow", at(0, 59)).await;
    pass("fast", at(0, 59)).await;
    assert!(!work().await, "not yet");
    pass("fast", at(1, 0)).await;
    assert!(work().await, "it waits for the slow one");
    assert_eq!(plan(&env, at(1, 0)).await, 1);
    assert!(work().await, "a run can be claimed");
    let claimed = claim(&env, LONG).await.unwrap();
    assert!(!work().await, "it is claimed");
    record(&env, &claimed, RunStatus::Completed).await;
    assert!(!work().await, "it is made");
    env.backfill(export_id).await;
    assert!(!work().await, "backfills are planned apart");
    assert_eq!(env.backfills_to_plan().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_whose_row_is_held_by_a_transaction_holds_up_no_other() {
    let database = TestDatabase::of(DatabaseKind::Postgres).await;
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    let (held, other) = (env.made().await.id, env.made().await.id);
    let lock = |id: Uuid| format!("SELECT 1 FROM batch_exports WHERE id = '{id}' FOR UPDATE");
    let holder = holding(&database, &lock(held)).await;
    let planning = ExportPlanner::new(catalog).plan_windows(at(1, 0));
    let planned = tokio::time::timeout(TEST_TIMEOUT, planning).await;
    planned.expect("it waits for the row").unwrap_err();
    assert!(windows(&env, held).await.is_empty());
    assert_eq!(windows(&env, other).await, [(0, 60)]);
    holder.rollback().await.unwrap();
    env.fixture.pass_micros(1);
    assert_eq!(plan(&env, at(1, 0)).await, 1);

    // Now the row of the older run is held, which would be claimed first.
    let (held, other) = (other, held);
    let holder = holding(&database, &lock(held)).await;
    let mut round_robin = RunRoundRobin::new(10);
    for expected in [Some(other), None] {
        let claiming = ExportRuns::new(catalog).claim(LONG, &mut round_robin);
        let claimed = tokio::time::timeout(TEST_TIMEOUT, claiming).await;
        let claimed = claimed.expect("it waits for the row").unwrap();
        assert_eq!(claimed.map(|run| run.export.id), expected);
    }
    holder.rollback().await.unwrap();
    let claimed = claim(&env, LONG).await.unwrap();
    assert_eq!(claimed.export.id, held);
}
