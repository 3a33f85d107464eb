//! Tests that planning a backfill delays neither windows by the clock nor other organizations.

use super::slow_counts::SlowCounts;
use super::test_env::{TestEnv, WINDOW, new_export};
use millrace_catalog::testing::{TestDatabase, on_both};
use millrace_catalog::{Actor, DestinationType, ProjectId, RunStatus};
use millrace_exports::{BackfillRange, Backfills, BatchExports, ExportPlace};
use serde_json::json;
use std::time::Duration;
use uuid::Uuid;

static SYSTEM: Actor = Actor::system();

/// Longest search for windows, in tests of searches that never end: longer than a real one takes on
/// a busy machine.
const SEARCH_MAX: Duration = Duration::from_secs(2);

on_both!(
    a_slow_count_delays_neither_windows_by_the_clock_nor_other_customers,
    counts_that_never_end_give_way_to_other_customers,
    a_count_that_takes_too_long_three_times_fails_its_backfill_with_advice,
    an_export_deleted_while_it_is_counted_delays_no_other,
    a_backfill_of_a_wrong_interval_fails_and_delays_no_other,
    a_backfill_of_an_unknown_model_fails_with_its_runs,
);

/// Creates exports of another organization, each with a backfill whose count does not end.
async fn slow_backfills(env: &TestEnv, place: ExportPlace) -> (ProjectId, Vec<(Uuid, Uuid)>) {
    let (mut project_id, mut backfills) = (ProjectId(0), Vec::new());
    for _ in 0..3 {
        let mut new = new_export(DestinationType::NoOp, &json!({}));
        new.paused = true;
        let export = env.make_at(place, new).await;
        project_id = ProjectId(export.team_id);
        let range = BackfillRange::default();
        let asked = Backfills::new(&env.catalog).start(&SYSTEM, place, export.id, range);
        backfills.push((export.id, asked.await.unwrap().id));
    }
    env.store(project_id, &[(1, -WINDOW, -WINDOW)]).await;
    (project_id, backfills)
}

async fn a_slow_count_delays_neither_windows_by_the_clock_nor_other_customers(
    database: TestDatabase,
) {
    let env = TestEnv::open(&database).await;
    let hostile = env.organization("Hostile").await;
    let (project_id, backfills) = slow_backfills(&env, hostile).await;
    let live = env.export(json!({})).await;
    let events = [(1, -WINDOW, -WINDOW), (2, 1, 1)];
    env.store(env.project_id, &events).await;
    env.pass(0).await;
    let mut counts = SlowCounts::start(&env.settings.url, &[project_id]).await;
    let _process = env.start_through(&counts.url);
    counts.until_held(1).await;

    env.pass(WINDOW).await;
    let runs = env.until_ended(live.id, 1).await;
    assert_eq!(runs[0].status, RunStatus::Completed, "{runs:?}");
    let other = env.backfill(live.id, None, None).await;
    let ended = env.backfill_ended(live.id, other).await;
    assert_eq!(ended, RunStatus::Completed);
    assert_eq!(counts.held(), 1, "one of an organization at a time");

    counts.go_on();
    for (export_id, id) in backfills {
        let ended = env.backfill_ended_at(hostile, export_id, id).await;
        assert_eq!(ended, RunStatus::Completed);
    }
}

async fn counts_that_never_end_give_way_to_other_customers(database: TestDatabase) {
    let mut env = TestEnv::open(&database).await;
    env.window_search_max = SEARCH_MAX;
    let mut project_ids = Vec::new();
    // As many as are planned at a time.
    for name in ["Hostile", "Hostile too"] {
        let place = env.organization(name).await;
        project_ids.push(slow_backfills(&env, place).await.0);
    }
    env.store(env.project_id, &[(1, -WINDOW, -WINDOW)]).await;
    env.pass(0).await;
    let mut counts = SlowCounts::start(&env.settings.url, &project_ids).await;
    let _process = env.start_through(&counts.url);
    counts.until_held(2).await;
    let export = env.export(json!({})).await;
    let backfill = env.backfill(export.id, None, None).await;
    let ended = env.backfill_ended(export.id, backfill).await;
    assert_eq!(ended, RunStatus::Completed);
    assert_eq!(env.exported(), [1]);
    // Each rests for three times as long as it failed for, though nobody waits for its place. A
    // slow machine only makes that longer.
    counts.until_held(4).await;
    let (intervals, rest) = (counts.intervals(), 3 * env.window_search_max);
    assert!(intervals.len() >= 2, "{intervals:?}");
    assert!(intervals.iter().all(|it| *it >= rest), "{intervals:?}");
}

async fn a_count_that_takes_too_long_three_times_fails_its_backfill_with_advice(
    database: TestDatabase,
) {
    let mut env = TestEnv::open(&database).await;
    env.window_search_max = SEARCH_MAX;
    let export = env.export(json!({})).await;
    env.store(env.project_id, &[(1, -WINDOW, -WINDOW)]).await;
    env.pass(0).await;
    let counts = SlowCounts::start(&env.settings.url, &[env.project_id]).await;
    let fails = env.backfill(export.id, None, None).await;
    let _process = env.start_through(&counts.url);
    let ended = env.backfill_ended(export.id, fails).await;
    assert_eq!(ended, RunStatus::Failed);
    let message = env.backfill_of(export.id, fails).await.message.unwrap();
    let advice = "ask for a shorter range or a narrower filter";
    assert!(message.contains(advice), "{message}");
    assert_eq!(counts.held(), 3);

    counts.go_on();
    let succeeds = env.backfill(export.id, None, None).await;
    let ended = env.backfill_ended(export.id, succeeds).await;
    assert_eq!(ended, RunStatus::Completed);
    assert_eq!(env.exported(), [1]);
}

async fn an_export_deleted_while_it_is_counted_delays_no_other(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let hostile = env.organization("Hostile").await;
    let (project_id, backfills) = slow_backfills(&env, hostile).await;
    env.pass(0).await;
    let mut counts = SlowCounts::start(&env.settings.url, &[project_id]).await;
    let _process = env.start_through(&counts.url);
    counts.until_held(1).await;
    let (deleted, _) = backfills[0];
    let gone = BatchExports::new(&env.catalog).delete(&SYSTEM, hostile, deleted);
    gone.await.unwrap();
    counts.go_on();
    for (export_id, id) in &backfills[1..] {
        let ended = env.backfill_ended_at(hostile, *export_id, *id).await;
        assert_eq!(ended, RunStatus::Completed);
    }
}

async fn a_backfill_of_a_wrong_interval_fails_and_delays_no_other(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    env.store(env.project_id, &[(1, -WINDOW, -WINDOW)]).await;
    let wrong = env.export(json!({})).await;
    env.pass(0).await;
    let fails = env.backfill(wrong.id, None, None).await;
    for spoil in [
        "UPDATE batch_exports SET \"interval\" = 'fortnight'",
        "UPDATE batch_export_backfills SET asked_for = NULL",
    ] {
        database.execute(spoil).await.unwrap();
    }
    let good = env.export(json!({})).await;
    let other = env.backfill(good.id, None, None).await;
    let _process = env.start();

    let ended = env.backfill_ended(good.id, other).await;
    assert_eq!(ended, RunStatus::Completed);
    assert_eq!(env.exported(), [1]);
    let ended = env.backfill_ended(wrong.id, fails).await;
    assert_eq!(ended, RunStatus::Failed);
    let message = env.backfill_of(wrong.id, fails).await.message.unwrap();
    assert!(message.contains("fortnight"), "{message}");
    assert!(message.contains("every N minutes"), "{message}");
    assert!(env.runs(wrong.id).await.is_empty());
}

async fn a_backfill_of_an_unknown_model_fails_with_its_runs(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    env.store(env.project_id, &[(1, -WINDOW, -WINDOW)]).await;
    env.pass(0).await;
    let export_id = env.export(json!({})).await.id;
    let to_plan = env.backfill(export_id, None, None).await;
    let planned = env.backfill(export_id, None, None).await;
    env.begin_backfill(planned).await;
    let settings = json!({
        "interval": "every 5 minutes", "model": "Later", "hogql_query": null, "query_schema": null,
        "event_filters": {},
    });
    let spoil = format!("UPDATE batch_export_backfills SET asked_for = '{settings}'");
    database.execute(&spoil).await.unwrap();

    let _process = env.start();
    for id in [to_plan, planned] {
        let ended = env.backfill_ended(export_id, id).await;
        assert_eq!(ended, RunStatus::Failed);
    }
    let message = env.backfill_of(export_id, to_plan).await.message.unwrap();
    assert!(message.contains("\"Later\""), "{message}");
    let runs = env.until_ended(export_id, 1).await;
    let [run] = runs.as_slice() else {
        panic!("{runs:?}");
    };
    assert_eq!((run.status, run.failures_count), (RunStatus::Failed, 0));
    let error = run.latest_error.as_deref().unwrap_or_default();
    assert!(error.contains("\"Later\""), "{error}");
    assert!(env.exported().is_empty());
}
