//! Runs of a backfill: counted, retried and cancelled.

use super::asked;
use crate::batch_exports::{HOUR, TestEnv, UNCLAIMED, hourly_run, violation};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{ActivityScope, RunStatus, UtcTime};
use millrace_exports::{Backfills, ExportRuns, RunProgress};
use std::time::Duration;
use uuid::Uuid;

on_both!(
    runs_of_a_backfill_are_counted_until_all_have_ended,
    a_backfill_fails_with_one_of_its_runs_until_that_is_tried_again,
    cancelling_a_backfill_cancels_its_open_runs,
    a_window_of_a_backfill_has_one_run_and_none_after_its_end,
    retrying_a_run_does_not_reopen_its_cancelled_backfill,
);

fn ended(status: RunStatus) -> RunProgress {
    RunProgress {
        status,
        records_completed: Some(1),
        records_total_count: Some(1),
        bytes_exported: Some(11),
        cursor: None,
        latest_error: None,
        waits: false,
    }
}

async fn record(env: &TestEnv, run_id: Uuid, status: RunStatus) {
    let catalog = &env.fixture.catalog;
    let recorded =
        ExportRuns::new(catalog).record(run_id, UNCLAIMED, ended(status), Duration::ZERO);
    recorded.await.unwrap();
}

async fn runs_of_a_backfill_are_counted_until_all_have_ended(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (fixture, catalog) = (&env.fixture, &env.fixture.catalog);
    let (actor, place) = (&fixture.actor, env.place());
    let export_id = env.made().await.id;
    let id = env.backfill(export_id).await;
    assert!(Backfills::new(catalog).plan(id, 2).await.unwrap());
    let runs = [
        env.begin_run(export_id, hourly_run(0, Some(id))).await,
        env.begin_run(export_id, hourly_run(1, Some(id))).await,
    ];
    let counts = async || {
        let seen = Backfills::new(catalog)
            .get(place, export_id, id)
            .await
            .unwrap()
            .unwrap();
        (seen.status, seen.finished_runs, seen.finished_at.is_some())
    };
    assert_eq!(counts().await, (RunStatus::Running, 0, false));
    record(&env, runs[0], RunStatus::Running).await;
    assert_eq!(counts().await, (RunStatus::Running, 0, false));
    record(&env, runs[0], RunStatus::Completed).await;
    assert_eq!(counts().await, (RunStatus::Running, 1, false));
    ExportRuns::new(catalog)
        .cancel(actor, place, export_id, runs[1])
        .await
        .unwrap();
    assert_eq!(counts().await, (RunStatus::Completed, 2, true));
    ExportRuns::new(catalog)
        .retry(actor, place, export_id, runs[1])
        .await
        .unwrap();
    assert_eq!(counts().await, (RunStatus::Running, 1, false));
    record(&env, runs[1], RunStatus::Completed).await;
    assert_eq!(counts().await, (RunStatus::Completed, 2, true));
    assert!(!Backfills::new(catalog).plan(id, 9).await.unwrap());
}

async fn a_backfill_fails_with_one_of_its_runs_until_that_is_tried_again(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    for bad in [RunStatus::Failed, RunStatus::TimedOut] {
        let export_id = env.made().await.id;
        let id = env.backfill(export_id).await;
        assert!(Backfills::new(catalog).plan(id, 2).await.unwrap());
        let runs = [
            env.begin_run(export_id, hourly_run(0, Some(id))).await,
            env.begin_run(export_id, hourly_run(1, Some(id))).await,
        ];
        let status = async || {
            let seen = Backfills::new(catalog).get(place, export_id, id).await;
            seen.unwrap().unwrap().status
        };
        record(&env, runs[0], bad).await;
        assert_eq!(status().await, RunStatus::Running, "another is open");
        record(&env, runs[1], RunStatus::Completed).await;
        assert_eq!(status().await, RunStatus::Failed);
        let again = ExportRuns::new(catalog).retry(actor, place, export_id, runs[0]);
        again.await.unwrap();
        record(&env, runs[0], RunStatus::Completed).await;
        assert_eq!(status().await, RunStatus::Completed);
    }
}

async fn cancelling_a_backfill_cancels_its_open_runs(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (fixture, catalog) = (&env.fixture, &env.fixture.catalog);
    let (actor, place) = (&fixture.actor, env.place());
    let export_id = env.made().await.id;
    let id = env.backfill(export_id).await;
    Backfills::new(catalog).plan(id, 3).await.unwrap();
    let mut runs = Vec::new();
    for (window, backfill_id) in [(0, Some(id)), (1, Some(id)), (2, None)] {
        runs.push(
            env.begin_run(export_id, hourly_run(window, backfill_id))
                .await,
        );
    }
    record(&env, runs[0], RunStatus::Completed).await;
    let cancelled = Backfills::new(catalog)
        .cancel(actor, place, export_id, id)
        .await
        .unwrap();
    assert_eq!(
        (cancelled.status, cancelled.finished_runs),
        (RunStatus::Cancelled, 2)
    );
    let mut statuses = Vec::new();
    for run in runs {
        let run = ExportRuns::new(catalog)
            .get(place, export_id, run)
            .await
            .unwrap()
            .unwrap();
        statuses.push(run.status);
    }
    assert_eq!(
        statuses,
        [
            RunStatus::Completed,
            RunStatus::Cancelled,
            RunStatus::Starting
        ]
    );
    let twice = Backfills::new(catalog)
        .cancel(actor, place, export_id, id)
        .await;
    assert_eq!(violation(&twice.unwrap_err()), (None, "invalid_input"));
    let entries = fixture.activity(ActivityScope::BatchExport).await;
    let change = &entries[0].detail.changes[0];
    assert_eq!(change.field, format!("backfills__{id}__status"));
    assert_eq!(
        (&change.before, &change.after),
        (&"Running".into(), &"Cancelled".into())
    );
}

async fn a_window_of_a_backfill_has_one_run_and_none_after_its_end(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let (id, export_id) = asked(&env).await;
    let begin = async |number: i64| {
        let window = (UtcTime(number * HOUR), UtcTime((number + 1) * HOUR));
        let begun = ExportRuns::new(catalog)
            .begin_of_backfill(id, window)
            .await
            .unwrap();
        begun.is_some()
    };
    let begun = [
        begin(1).await,
        begin(1).await,
        begin(0).await,
        begin(2).await,
    ];
    assert_eq!(begun, [true, false, false, true]);
    let cancelled = Backfills::new(catalog).cancel(actor, place, export_id, id);
    cancelled.await.unwrap();
    assert!(!begin(3).await);
}

async fn retrying_a_run_does_not_reopen_its_cancelled_backfill(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let (id, export_id) = asked(&env).await;
    assert!(Backfills::new(catalog).plan(id, 5).await.unwrap());
    let window = (UtcTime(0), UtcTime(HOUR));
    let run = ExportRuns::new(catalog)
        .begin_of_backfill(id, window)
        .await
        .unwrap();
    let run_id = run.unwrap().id;
    let cancelled = Backfills::new(catalog).cancel(actor, place, export_id, id);
    let cancelled = cancelled.await.unwrap();
    let again = ExportRuns::new(catalog).retry(actor, place, export_id, run_id);
    again.await.unwrap();
    for status in [RunStatus::Running, RunStatus::Completed] {
        record(&env, run_id, status).await;
        let seen = Backfills::new(catalog).get(place, export_id, id).await;
        assert_eq!(seen.unwrap().unwrap(), cancelled);
        let open = env.backfills_to_plan().await;
        assert!(open.is_empty());
    }
}
