//! Tests of exports while ClickHouse is down, or persons are behind: they wait, and nothing fails.

use super::gateway::{Gateway, Page};
use super::test_env::{NOW, TestEnv, WINDOW, new_export};
use millrace_catalog::testing::{TestDatabase, on_both};
use millrace_catalog::{DestinationType, ExportModel, RunStatus, UtcTime};
use millrace_exports::BatchExports;
use millrace_persons::PersonStore;
use serde_json::json;
use std::time::Duration;
use uuid::Uuid;

on_both!(
    exports_wait_while_clickhouse_is_away_and_use_up_no_try,
    an_export_waits_until_persons_are_up_to_date_and_uses_up_no_try,
    a_backfill_of_persons_does_not_wait_for_a_start_in_the_future,
);

/// Tries of a wait; a run that fails has six.
const TRIES: usize = 8;
/// Address at which nobody listens.
const NOBODY: &str = "http://127.0.0.1:9";
/// Response of a gateway whose ClickHouse is down.
const AWAY: Page = Page {
    status: "503 Service Unavailable",
    body: "",
};

/// Asserts that all runs of an export are open, have not failed, and have paused nothing.
async fn assert_waits(env: &TestEnv, export_id: Uuid) {
    for run in env.runs(export_id).await {
        assert!(run.status.is_open(), "{run:?}");
        assert_eq!(run.failures_count, 0, "{run:?}");
    }
    assert!(!env.is_paused(export_id).await);
    assert!(BatchExports::new(&env.catalog).waiting().await.unwrap() > 0);
    let notices = env.notices.lock().unwrap().clone();
    assert!(notices.is_empty(), "{notices:?}");
}

async fn assert_completes(env: &TestEnv, export_id: Uuid, count: usize) {
    let runs = env.until_ended(export_id, count).await;
    assert_eq!(runs.len(), count);
    for run in runs {
        assert_eq!(run.status, RunStatus::Completed, "{run:?}");
    }
}

/// Notes that persons are up to date at the end of the window after the start of the test.
async fn note_persons(env: &TestEnv) {
    let progress = PersonStore::new(&env.catalog).progress().await.unwrap();
    let passed = UtcTime(NOW.0 + WINDOW);
    let noted = PersonStore::new(&env.catalog).note_passed(&progress, passed);
    noted.await.unwrap();
}

async fn exports_wait_while_clickhouse_is_away_and_use_up_no_try(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let events = [(1, -WINDOW, -WINDOW), (2, 0, 0)];
    env.store(env.project_id, &events).await;
    let own = env.export(json!({})).await.id;
    let mut new = new_export(DestinationType::NoOp, &json!({}));
    new.hogql_query = Some("SELECT uuid FROM events".to_owned());
    let of_query = env.make(new).await.id;
    // The backfill has its run already.
    let backfill_id = env.backfill(own, None, None).await;
    env.begin_backfill(backfill_id).await;
    env.pass(WINDOW).await;

    let gateway = Gateway::start(&env.settings.url, AWAY).await;
    for url in [NOBODY, gateway.url.as_str()] {
        let process = env.start_through(url);
        for export_id in [own, of_query] {
            env.until_tried(export_id, TRIES).await;
            assert_waits(&env, export_id).await;
        }
        let backfill = env.backfill_of(own, backfill_id).await;
        assert!(backfill.status.is_open(), "{backfill:?}");
        process.kill();
    }
    let _process = env.start();
    assert_completes(&env, own, 2).await;
    assert_completes(&env, of_query, 1).await;
    let ended = env.backfill_ended(own, backfill_id).await;
    assert_eq!(ended, RunStatus::Completed);
    assert_eq!(env.exported(), [1, 2]);
    assert_eq!(BatchExports::new(&env.catalog).waiting().await.unwrap(), 0);
}

async fn an_export_waits_until_persons_are_up_to_date_and_uses_up_no_try(database: TestDatabase) {
    let mut env = TestEnv::open(&database).await;
    env.persons_wait_max = Duration::from_millis(1);
    let mut new = new_export(DestinationType::FileSystem, &json!({"path": "out"}));
    new.model = ExportModel::Persons;
    let export_id = env.make(new).await.id;
    env.pass(WINDOW).await;
    let _process = env.start();
    env.until_tried(export_id, TRIES).await;
    assert_waits(&env, export_id).await;
    note_persons(&env).await;
    assert_completes(&env, export_id, 1).await;
}

/// Regression: the run waited until persons were known at the export's start, and held a slot.
async fn a_backfill_of_persons_does_not_wait_for_a_start_in_the_future(database: TestDatabase) {
    let mut env = TestEnv::open(&database).await;
    env.persons_wait_max = Duration::from_millis(1);
    let mut new = new_export(DestinationType::FileSystem, &json!({"path": "out"}));
    new.model = ExportModel::Persons;
    new.start_at = Some(UtcTime(NOW.0 + 1_000 * WINDOW));
    let export_id = env.make(new).await.id;
    env.pass(WINDOW).await;
    note_persons(&env).await;
    // There are no persons by which a planner would find a window.
    let backfill_id = env.backfill(export_id, None, None).await;
    env.begin_backfill(backfill_id).await;
    let _process = env.start();
    assert_completes(&env, export_id, 1).await;
    let ended = env.backfill_ended(export_id, backfill_id).await;
    assert_eq!(ended, RunStatus::Completed);
}
