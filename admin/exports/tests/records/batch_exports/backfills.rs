//! Backfills: asked for, planned, counted, cancelled.

use super::{COMMAND_LINE, HOUR, TestEnv, UNCLAIMED, blame, new_export};
use millrace_catalog::limits::OPEN_BACKFILLS_MAX;
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    ActivityScope, BatchExport, ChangeError, ExportModel, PageRequest, RunStatus, UtcTime,
};
use millrace_exports::{
    BackfillRange, Backfills, BatchExportChange, BatchExports, DestinationChange, ExportLogFilter,
    ExportLogs, ExportRuns, NewRun, RunProgress, RunRoundRobin,
};
use millrace_organizations::testing::fixture::{ALL, NOW};
use serde_json::json;
use std::time::Duration;
use uuid::Uuid;

on_both!(
    invalid_backfill_ranges_are_refused,
    runs_of_a_backfill_are_counted_until_all_have_ended,
    a_backfill_fails_with_one_of_its_runs_until_that_is_tried_again,
    a_backfill_that_cannot_be_planned_is_given_up_once,
    a_backfill_without_runs_completes_at_once_with_a_reason,
    a_range_without_an_ended_window_completes_at_once_with_a_reason,
    cancelling_a_backfill_cancels_its_open_runs,
    a_backfill_uses_the_export_settings_at_its_request,
    a_window_of_a_backfill_has_one_run_and_none_after_its_end,
    retrying_a_run_does_not_reopen_its_cancelled_backfill,
    backfills_are_listed_newest_first_for_their_owner_only,
    an_export_has_a_limit_of_open_backfills,
);

async fn invalid_backfill_ranges_are_refused(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (fixture, catalog) = (&env.fixture, &env.fixture.catalog);
    let export_id = env.made().await.id;
    let now = NOW.0;
    let table = [
        (None, None, None),
        (Some(0), Some(1), None),
        (Some(now - HOUR), None, None),
        (None, Some(now + HOUR), None),
        (Some(now + 1), Some(now + HOUR), None),
        (Some(1), Some(1), Some("start_at")),
        (Some(2), Some(1), Some("start_at")),
        (Some(now), None, Some("start_at")),
        (None, Some(now + HOUR + 1), Some("end_at")),
    ];
    for (start, end, blamed) in table {
        let range = BackfillRange {
            start_at: start.map(UtcTime),
            end_at: end.map(UtcTime),
        };
        let started = Backfills::new(catalog)
            .start(&fixture.actor, env.place(), export_id, range)
            .await;
        match blamed {
            None => {
                let backfill = started.unwrap();
                assert_eq!(
                    (backfill.start_at, backfill.end_at),
                    (range.start_at, range.end_at)
                );
                let has_ended = start.is_none_or(|start| start <= now);
                let expected = match has_ended {
                    true => (RunStatus::Starting, None),
                    false => (RunStatus::Completed, Some(0)),
                };
                assert_eq!((backfill.status, backfill.total_runs), expected);
            }
            Some(field) => {
                let expected = (Some(field.to_owned()), "invalid_input");
                assert_eq!(blame(&started.unwrap_err()), expected, "{range:?}");
            }
        }
    }
}

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
    let range = BackfillRange::default();
    let id = Backfills::new(catalog)
        .start(actor, place, export_id, range)
        .await
        .unwrap()
        .id;
    assert!(Backfills::new(catalog).plan(id, 2).await.unwrap());
    let mut runs = Vec::new();
    for window in 0..2 {
        let new = NewRun {
            backfill_id: Some(id),
            data_interval_start: Some(UtcTime(window * HOUR)),
            data_interval_end: UtcTime((window + 1) * HOUR),
        };
        runs.push(
            ExportRuns::new(catalog)
                .begin(export_id, new)
                .await
                .unwrap()
                .id,
        );
    }
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
        let asked =
            Backfills::new(catalog).start(actor, place, export_id, BackfillRange::default());
        let id = asked.await.unwrap().id;
        assert!(Backfills::new(catalog).plan(id, 2).await.unwrap());
        let mut runs = Vec::new();
        for window in 0..2 {
            let new = NewRun {
                backfill_id: Some(id),
                data_interval_start: Some(UtcTime(window * HOUR)),
                data_interval_end: UtcTime((window + 1) * HOUR),
            };
            runs.push(
                ExportRuns::new(catalog)
                    .begin(export_id, new)
                    .await
                    .unwrap()
                    .id,
            );
        }
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

async fn a_backfill_that_cannot_be_planned_is_given_up_once(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let export_id = env.made().await.id;
    let asked = Backfills::new(catalog).start(actor, place, export_id, BackfillRange::default());
    let id = asked.await.unwrap().id;
    assert!(Backfills::new(catalog).fail(id, "Why.").await.unwrap());
    let seen = Backfills::new(catalog).get(place, export_id, id).await;
    let seen = seen.unwrap().unwrap();
    assert_eq!(
        (seen.status, seen.message.as_deref()),
        (RunStatus::Failed, Some("Why."))
    );
    assert!(seen.finished_at.is_some());
    assert!(!Backfills::new(catalog).fail(id, "Why.").await.unwrap());
    assert!(!Backfills::new(catalog).plan(id, 1).await.unwrap());
    let nobody = Backfills::new(catalog).fail(Uuid::now_v7(), "Why.").await;
    assert!(!nobody.unwrap());
}

/// The newest line of an export.
async fn last_line(env: &TestEnv, export_id: Uuid) -> String {
    let (catalog, filter) = (&env.fixture.catalog, ExportLogFilter::default());
    let lines = ExportLogs::new(catalog).list(env.place(), export_id, &filter, ALL);
    lines.await.unwrap().unwrap().rows[0].message.clone()
}

async fn a_range_without_an_ended_window_completes_at_once_with_a_reason(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    // In the middle of a window.
    env.fixture.pass_micros(HOUR / 2);
    let (window, now) = (NOW.0, NOW.0 + HOUR / 2);
    let table = [
        (Some(window), None, true),
        (Some(window), Some(window + HOUR), true),
        (Some(now + 1), Some(now + HOUR), true),
        (Some(window - 1), None, false),
        (None, None, false),
    ];
    for (start, end, is_empty) in table {
        let export_id = env.made().await.id;
        let range = BackfillRange {
            start_at: start.map(UtcTime),
            end_at: end.map(UtcTime),
        };
        let asked = Backfills::new(catalog).start(actor, place, export_id, range);
        let backfill = asked.await.unwrap();
        assert_eq!(backfill.message.is_some(), is_empty, "{range:?}");
        let Some(message) = backfill.message else {
            continue;
        };
        assert_eq!(
            (backfill.status, backfill.total_runs, backfill.finished_at),
            (RunStatus::Completed, Some(0), Some(backfill.created_at))
        );
        let next_end = UtcTime(window + HOUR).to_string();
        assert!(message.contains(&next_end), "{message}");
        let line = last_line(&env, export_id).await;
        assert!(line.contains(&message), "{line}");
        let open = env.backfills_to_plan().await;
        assert!(open.iter().all(|open| open.backfill.id != backfill.id));
    }
}

async fn a_backfill_without_runs_completes_at_once_with_a_reason(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let (export_id, range) = (env.made().await.id, BackfillRange::default());
    let empty = Backfills::new(catalog)
        .start(actor, place, export_id, range)
        .await
        .unwrap()
        .id;
    let why = "Nothing lies there.";
    let ended = Backfills::new(catalog).end_empty(empty, why).await;
    assert!(ended.unwrap());
    let twice = Backfills::new(catalog).end_empty(empty, "Again.").await;
    assert!(!twice.unwrap(), "it has ended");
    let empty = Backfills::new(catalog)
        .get(place, export_id, empty)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (empty.status, empty.total_runs, empty.message.as_deref()),
        (RunStatus::Completed, Some(0), Some(why))
    );
    let line = last_line(&env, export_id).await;
    assert!(line.ends_with(why), "{line}");
}

async fn cancelling_a_backfill_cancels_its_open_runs(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (fixture, catalog) = (&env.fixture, &env.fixture.catalog);
    let (actor, place) = (&fixture.actor, env.place());
    let export_id = env.made().await.id;
    let range = BackfillRange::default();
    let id = Backfills::new(catalog)
        .start(actor, place, export_id, range)
        .await
        .unwrap()
        .id;
    Backfills::new(catalog).plan(id, 3).await.unwrap();
    let mut runs = Vec::new();
    for (window, backfill_id) in [(0, Some(id)), (1, Some(id)), (2, None)] {
        let new = NewRun {
            backfill_id,
            data_interval_start: Some(UtcTime(window * HOUR)),
            data_interval_end: UtcTime((window + 1) * HOUR),
        };
        runs.push(
            ExportRuns::new(catalog)
                .begin(export_id, new)
                .await
                .unwrap()
                .id,
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
    assert_eq!(blame(&twice.unwrap_err()), (None, "invalid_input"));
    let entries = fixture.activity(ActivityScope::BatchExport).await;
    let change = &entries[0].detail.changes[0];
    assert_eq!(change.field, format!("backfills__{id}__status"));
    assert_eq!(
        (&change.before, &change.after),
        (&"Running".into(), &"Cancelled".into())
    );
}

/// New export with a backfill; answers the ids of both.
async fn asked(env: &TestEnv) -> (Uuid, Uuid) {
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let export_id = env.made().await.id;
    let asked = Backfills::new(catalog).start(actor, place, export_id, BackfillRange::default());
    (asked.await.unwrap().id, export_id)
}

async fn a_backfill_uses_the_export_settings_at_its_request(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    let (id, export_id) = asked(&env).await;
    let query = ("SELECT event FROM events".to_owned(), json!([]));
    let destination = DestinationChange {
        config: json!({"include_events": ["only"]})
            .as_object()
            .cloned()
            .unwrap(),
        ..new_export().destination
    };
    let change = BatchExportChange {
        interval: Some("day".to_owned()),
        model: Some(ExportModel::Persons),
        destination: Some(destination),
        query: Some(Some(query)),
        ..BatchExportChange::default()
    };
    let changed = BatchExports::new(catalog).update(env.writer(), export_id, change);
    let changed = changed.await.unwrap().export;
    let parts = |export: &BatchExport| {
        let included = export.destination_config.get("include_events").cloned();
        let query = export.hogql_query.clone();
        (export.interval.clone(), export.model, query, included)
    };
    let as_asked = ("hour".to_owned(), ExportModel::Events, None, None);
    assert_ne!(parts(&changed), as_asked);
    let open = env.backfills_to_plan().await;
    assert_eq!(parts(&open[0].export), as_asked);
    let window = (UtcTime(0), UtcTime(HOUR));
    let begun = ExportRuns::new(catalog)
        .begin_of_backfill(id, window)
        .await
        .unwrap();
    let mut round_robin = RunRoundRobin::new(10);
    let claimed = ExportRuns::new(catalog).claim(Duration::from_secs(60), &mut round_robin);
    let claimed = claimed.await.unwrap().unwrap();
    assert_eq!(claimed.run.id, begun.unwrap().id);
    assert_eq!(parts(&claimed.export), as_asked);
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

async fn backfills_are_listed_newest_first_for_their_owner_only(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (fixture, catalog) = (&env.fixture, &env.fixture.catalog);
    let (actor, place) = (&fixture.actor, env.place());
    let (export_id, other) = (env.made().await.id, env.made().await.id);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let range = BackfillRange::default();
        ids.push(
            Backfills::new(catalog)
                .start(actor, place, export_id, range)
                .await
                .unwrap()
                .id,
        );
        fixture.pass_micros(1);
    }
    ids.reverse();
    let (counted, count) = catalog.counted();
    let listed = Backfills::new(&counted)
        .list(place, export_id, ALL)
        .await
        .unwrap()
        .unwrap();
    let found: Vec<_> = listed.rows.iter().map(|backfill| backfill.id).collect();
    assert_eq!(
        (listed.count, found, count.take().len()),
        (3, ids.clone(), 3)
    );
    let foreign = env.foreign_place();
    assert_eq!(
        Backfills::new(catalog)
            .list(foreign, export_id, ALL)
            .await
            .unwrap(),
        None
    );
    let strange = [
        (foreign, export_id, ids[0]),
        (place, other, ids[0]),
        (place, export_id, Uuid::now_v7()),
    ];
    for (place, export_id, id) in strange {
        assert_eq!(
            Backfills::new(catalog)
                .get(place, export_id, id)
                .await
                .unwrap(),
            None
        );
        let cancelled = Backfills::new(catalog)
            .cancel(&COMMAND_LINE, place, export_id, id)
            .await;
        assert!(matches!(cancelled, Err(ChangeError::NotFound { .. })));
    }
}

async fn an_export_has_a_limit_of_open_backfills(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let export_id = env.made().await.id;
    let start = || Backfills::new(catalog).start(actor, place, export_id, BackfillRange::default());
    for _ in 0..OPEN_BACKFILLS_MAX {
        start().await.unwrap();
    }
    let error = start().await.unwrap_err();
    assert_eq!(blame(&error), (None, "invalid_input"));
    assert!(error.to_string().contains("cancel one"), "{error}");
    let page = PageRequest {
        limit: 1,
        offset: 0,
    };
    let open = Backfills::new(catalog).list(place, export_id, page).await;
    let open = open.unwrap().unwrap().rows.remove(0).id;
    let cancelled = Backfills::new(catalog).cancel(actor, place, export_id, open);
    cancelled.await.unwrap();
    start().await.unwrap();
}
