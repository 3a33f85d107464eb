//! Runs: created and recorded by the process that makes them, retried and cancelled by people.

use super::{COMMAND_LINE, HOUR, TestEnv, UNCLAIMED, hourly_run, violation};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    ActivityScope, BatchExportRun, ChangeError, PageRequest, RunStatus, UtcTime,
};
use millrace_exports::{
    Backfills, BatchExports, ExportRuns, NewRun, RunFilter, RunOrder, RunOutcome, RunProgress,
    RunRoundRobin, TAKE_BACK_MAX,
};
use millrace_organizations::testing::fixture::ALL;
use std::time::Duration;
use uuid::Uuid;

on_both!(
    a_run_is_recorded_until_it_ends,
    runs_are_filtered_and_ordered,
    an_ended_run_is_retried_and_an_open_one_cancelled,
    a_run_that_was_cancelled_is_not_made_by_two_at_a_time,
    a_cancelled_run_holds_its_export_until_its_rows_are_taken_back,
    runs_of_other_organizations_are_not_found,
    latest_runs_of_an_export_equal_its_run_rows,
    runs_that_begin_together_are_numbered_without_gaps,
);

fn progress(status: RunStatus) -> RunProgress {
    RunProgress {
        status,
        records_completed: Some(3),
        records_total_count: Some(7),
        bytes_exported: Some(11),
        cursor: Some("c".to_owned()),
        latest_error: Some("e".to_owned()),
        waits: false,
    }
}

async fn begun(env: &TestEnv, export_id: Uuid, number: i64) -> BatchExportRun {
    let run = ExportRuns::new(&env.fixture.catalog).begin(export_id, hourly_run(number, None));
    run.await.unwrap()
}

async fn a_run_is_recorded_until_it_ends(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (fixture, catalog) = (&env.fixture, &env.fixture.catalog);
    let export_id = env.made().await.id;
    let run = begun(&env, export_id, 1).await;
    assert_eq!((run.ordinal, run.status), (1, RunStatus::Starting));
    fixture.pass_micros(9);
    for status in [
        RunStatus::Running,
        RunStatus::FailedRetryable,
        RunStatus::Completed,
    ] {
        let recorded = ExportRuns::new(catalog)
            .record(run.id, UNCLAIMED, progress(status), Duration::ZERO)
            .await;
        assert_eq!(recorded.unwrap(), RunOutcome::Kept);
        let seen = ExportRuns::new(catalog)
            .get(env.place(), export_id, run.id)
            .await
            .unwrap()
            .unwrap();
        let now = UtcTime(fixture.now().0);
        assert_eq!((seen.status, seen.last_updated_at), (status, now));
        assert_eq!(
            (seen.records_completed, seen.records_total_count),
            (Some(3), Some(7))
        );
        assert_eq!(
            (seen.cursor.as_deref(), seen.latest_error.as_deref()),
            (Some("c"), Some("e"))
        );
        assert_eq!(seen.finished_at, (!status.is_open()).then_some(now));
    }
    let late = progress(RunStatus::Running);
    for id in [run.id, Uuid::now_v7()] {
        let recorded = ExportRuns::new(catalog)
            .record(id, UNCLAIMED, late.clone(), Duration::ZERO)
            .await;
        assert_eq!(recorded.unwrap(), RunOutcome::Lost);
    }
    let gone = ExportRuns::new(catalog)
        .begin(Uuid::now_v7(), hourly_run(1, None))
        .await;
    assert!(matches!(gone, Err(ChangeError::NotFound { .. })));
}

/// Filters, and the windows that remain, in order.
fn filters(begin: i64) -> Vec<(RunFilter, Vec<i64>)> {
    let at = |micros| Some(UtcTime(begin + micros));
    let hours = |number| Some(UtcTime(number * HOUR));
    let all = RunFilter::default();
    vec![
        (all, vec![2, 1, 3]),
        (
            RunFilter {
                order: RunOrder::EarliestWindowFirst,
                ..all
            },
            vec![1, 2, 3],
        ),
        (
            RunFilter {
                order: RunOrder::LatestWindowFirst,
                ..all
            },
            vec![3, 2, 1],
        ),
        (
            RunFilter {
                after: at(10),
                ..all
            },
            vec![2, 1],
        ),
        (
            RunFilter {
                before: at(10),
                ..all
            },
            vec![3],
        ),
        (
            RunFilter {
                after: at(10),
                before: at(11),
                ..all
            },
            vec![1],
        ),
        (
            RunFilter {
                start: hours(2),
                ..all
            },
            vec![2, 3],
        ),
        (
            RunFilter {
                end: hours(2),
                ..all
            },
            vec![1],
        ),
    ]
}

async fn runs_are_filtered_and_ordered(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (fixture, catalog) = (&env.fixture, &env.fixture.catalog);
    let export_id = env.made().await.id;
    let begin = fixture.now().0;
    for number in [3, 1, 2] {
        begun(&env, export_id, number).await;
        fixture.pass_micros(10);
    }
    let table = filters(begin);
    for (filter, expected) in table {
        let found = ExportRuns::new(catalog)
            .list(env.place(), export_id, filter, ALL)
            .await;
        let found = found.unwrap().unwrap();
        let windows: Vec<i64> = found
            .rows
            .iter()
            .map(|run| run.data_interval_start.unwrap().0 / HOUR)
            .collect();
        assert_eq!(
            (found.count, windows),
            (expected.len() as u64, expected),
            "{filter:?}"
        );
    }
    let page = PageRequest {
        limit: 1,
        offset: 1,
    };
    let (counted, count) = catalog.counted();
    let found = ExportRuns::new(&counted)
        .list(env.place(), export_id, RunFilter::default(), page)
        .await;
    let found = found.unwrap().unwrap();
    assert_eq!(
        (found.count, found.rows[0].ordinal, count.take().len()),
        (3, 2, 3)
    );
}

async fn an_ended_run_is_retried_and_an_open_one_cancelled(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (fixture, catalog) = (&env.fixture, &env.fixture.catalog);
    let (actor, place) = (&fixture.actor, env.place());
    let export_id = env.made().await.id;
    let run = begun(&env, export_id, 1).await;
    let early = ExportRuns::new(catalog)
        .retry(actor, place, export_id, run.id)
        .await;
    assert_eq!(violation(&early.unwrap_err()), (None, "invalid_input"));
    let cancelled = ExportRuns::new(catalog)
        .cancel(actor, place, export_id, run.id)
        .await
        .unwrap();
    let now = Some(UtcTime(fixture.now().0));
    assert_eq!(
        (cancelled.status, cancelled.finished_at),
        (RunStatus::Cancelled, now)
    );
    let twice = ExportRuns::new(catalog)
        .cancel(actor, place, export_id, run.id)
        .await;
    assert_eq!(violation(&twice.unwrap_err()), (None, "invalid_input"));
    let stopped = ExportRuns::new(catalog)
        .record(
            run.id,
            UNCLAIMED,
            progress(RunStatus::Completed),
            Duration::ZERO,
        )
        .await;
    assert_eq!(
        stopped.unwrap(),
        RunOutcome::Lost,
        "whoever makes it learns that it was cancelled"
    );

    let retried = ExportRuns::new(catalog)
        .retry(actor, place, export_id, run.id)
        .await
        .unwrap();
    assert_eq!(
        (retried.status, retried.finished_at),
        (RunStatus::Starting, None)
    );
    assert_eq!((retried.records_completed, retried.cursor), (None, None));
    assert_eq!(retried.data_interval_start, run.data_interval_start);
    let entries = fixture.activity(ActivityScope::BatchExport).await;
    let changes: Vec<_> = entries
        .iter()
        .flat_map(|entry| &entry.detail.changes)
        .filter(|change| change.field == format!("runs__{}__status", run.id))
        .map(|change| change.after.as_str().unwrap())
        .collect();
    assert_eq!(changes, ["Starting", "Cancelled"]);
}

async fn a_run_that_was_cancelled_is_not_made_by_two_at_a_time(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let export_id = env.made().await.id;
    let id = begun(&env, export_id, 1).await.id;
    for (time, is_free) in [(Duration::ZERO, true), (Duration::from_secs(600), false)] {
        let claimed = ExportRuns::new(catalog)
            .claim(time, &mut RunRoundRobin::new(10))
            .await
            .unwrap()
            .unwrap();
        let cancelled = ExportRuns::new(catalog)
            .cancel(actor, place, export_id, id)
            .await;
        assert_eq!(cancelled.unwrap().claim, None);
        let retried = ExportRuns::new(catalog)
            .retry(actor, place, export_id, id)
            .await;
        assert_eq!(retried.unwrap().status, RunStatus::Starting);
        // The process that makes it may not know yet.
        let again = ExportRuns::new(catalog)
            .claim(Duration::ZERO, &mut RunRoundRobin::new(10))
            .await
            .unwrap();
        assert_eq!(again.is_some(), is_free);
        let again = again.map(|again| again.run.claim);
        assert_ne!(again, Some(claimed.run.claim));
    }
}

async fn claimed(env: &TestEnv) -> Option<BatchExportRun> {
    let (catalog, time) = (&env.fixture.catalog, Duration::from_secs(600));
    let mut round_robin = RunRoundRobin::new(10);
    let claimed = ExportRuns::new(catalog).claim(time, &mut round_robin);
    claimed.await.unwrap().map(|claimed| claimed.run)
}

async fn a_cancelled_run_holds_its_export_until_its_rows_are_taken_back(database: TestDatabase) {
    for is_backfill in [false, true] {
        let database = TestDatabase::of(database.kind()).await;
        let env = TestEnv::open(&database).await;
        let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
        let export_id = env.made().await.id;
        let backfill_id = env.backfill(export_id).await;
        let new = hourly_run(1, is_backfill.then_some(backfill_id));
        env.begin_run(export_id, new).await;
        let run = claimed(&env).await.unwrap();
        if is_backfill {
            let cancelled = Backfills::new(catalog).cancel(actor, place, export_id, backfill_id);
            cancelled.await.unwrap();
        } else {
            let cancelled = ExportRuns::new(catalog).cancel(actor, place, export_id, run.id);
            cancelled.await.unwrap();
        }
        // Another run of the export, as of a backfill of the same window, and one of another.
        begun(&env, export_id, 2).await;
        assert_eq!(claimed(&env).await, None, "{is_backfill}");
        let retried = ExportRuns::new(catalog).retry(actor, place, export_id, run.id);
        assert_eq!(retried.await.unwrap().claim, None, "{is_backfill}");
        assert_eq!(claimed(&env).await, None, "{is_backfill}");
        let late = progress(RunStatus::Running);
        let recorded = ExportRuns::new(catalog).record(run.id, run.claim, late, Duration::ZERO);
        assert_eq!(recorded.await.unwrap(), RunOutcome::Lost, "{is_backfill}");
        let other = env.made().await.id;
        begun(&env, other, 1).await;
        let of_other = claimed(&env).await.unwrap();
        assert_eq!(of_other.batch_export_id, other, "{is_backfill}");

        // The claim of ten minutes has lapsed, and then what it delivered is taken back.
        let held = [(500, false), (100 + TAKE_BACK_MAX.as_secs(), true)];
        for (seconds, is_free) in held {
            let pass = format!(
                "UPDATE batch_exports SET busy_until = busy_until - {seconds} * 1000000 WHERE busy_until > 0"
            );
            database.execute(&pass).await.unwrap();
            let lapse = "UPDATE batch_export_runs SET claim_lapses_at = 0 WHERE claim IS NULL";
            database.execute(lapse).await.unwrap();
            let next = claimed(&env).await;
            assert_eq!(next.is_some(), is_free, "{is_backfill} {seconds}");
        }
    }
}

async fn runs_of_other_organizations_are_not_found(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor) = (&env.fixture.catalog, &COMMAND_LINE);
    let (mine, other) = (env.made().await.id, env.made().await.id);
    let run = begun(&env, mine, 1).await;
    let strange = [
        (env.foreign_place(), mine, run.id),
        (env.place(), other, run.id),
        (env.place(), mine, Uuid::now_v7()),
        (env.place(), Uuid::now_v7(), run.id),
    ];
    for (place, export_id, id) in strange {
        assert_eq!(
            ExportRuns::new(catalog)
                .get(place, export_id, id)
                .await
                .unwrap(),
            None
        );
        let retried = ExportRuns::new(catalog)
            .retry(actor, place, export_id, id)
            .await;
        assert!(matches!(retried, Err(ChangeError::NotFound { .. })));
        let cancelled = ExportRuns::new(catalog)
            .cancel(actor, place, export_id, id)
            .await;
        assert!(matches!(cancelled, Err(ChangeError::NotFound { .. })));
    }
    let filter = RunFilter::default();
    let listed = ExportRuns::new(catalog)
        .list(env.foreign_place(), mine, filter, ALL)
        .await;
    assert_eq!(listed.unwrap(), None);
}

async fn runs_that_begin_together_are_numbered_without_gaps(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    let export_id = env.made().await.id;
    let tries: Vec<_> = (0..20)
        .map(|number| {
            let catalog = catalog.clone();
            tokio::spawn(async move {
                ExportRuns::new(&catalog)
                    .begin(export_id, hourly_run(number, None))
                    .await
            })
        })
        .collect();
    let mut ordinals = Vec::new();
    for begun in tries {
        ordinals.push(begun.await.unwrap().unwrap().ordinal);
    }
    ordinals.sort_unstable();
    assert_eq!(ordinals, (1..=20).collect::<Vec<_>>());
}

/// Runs are read with their export from another table than alone.
async fn latest_runs_of_an_export_equal_its_run_rows(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, place) = (&env.fixture.catalog, env.place());
    let export_id = env.made().await.id;
    let new = NewRun {
        backfill_id: Some(env.backfill(export_id).await),
        data_interval_start: None,
        data_interval_end: UtcTime(i64::MAX),
    };
    let run_id = env.begin_run(export_id, new).await;
    let told = RunProgress {
        latest_error: Some("\"no\",\n\\ é\u{1}🚰".to_owned()),
        ..progress(RunStatus::FailedRetryable)
    };
    let recorded = ExportRuns::new(catalog).record(run_id, UNCLAIMED, told, Duration::ZERO);
    recorded.await.unwrap();
    let bare = begun(&env, export_id, 2).await;
    let shown = BatchExports::new(catalog)
        .get(place, export_id)
        .await
        .unwrap();
    let shown = shown.unwrap().latest_runs;
    let filter = RunFilter::default();
    let listed = ExportRuns::new(catalog).list(place, export_id, filter, ALL);
    let mut listed = listed.await.unwrap().unwrap().rows;
    for run in &mut listed {
        // Claims and times of tries are not shown.
        (run.next_try_at, run.failures_count) = (0, 0);
    }
    assert_eq!(shown, listed);
    assert_eq!((shown.len(), &shown[0]), (2, &bare));
}
