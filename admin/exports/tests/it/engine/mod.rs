//! Tests of the engine: each event is exported exactly once, whichever process dies.

mod backfill_isolation;
mod backfills;
mod full_organization;
mod gateway;
mod lease_renewer;
mod lost_queries;
mod maintenance;
mod organization_isolation;
mod outage;
mod panics;
mod silent_catalog;
mod slow_counts;
mod slow_server;
mod stopping;
mod test_env;

use millrace_catalog::testing::{TestDatabase, on_both};
use millrace_catalog::{DestinationType, ProjectId, RunStatus};
use millrace_exports::engine::{MinimumPace, Notice};
use millrace_rows::testing::number_from_env;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use slow_server::SlowServer;
use std::time::Duration;
use test_env::{TestEnv, WINDOW, new_export};

on_both!(
    every_event_is_in_one_window_though_processes_die,
    a_failing_backfill_does_not_affect_others,
    an_export_that_never_ran_is_backfilled,
    an_empty_backfill_has_a_reason,
    a_run_that_cannot_succeed_is_given_up_with_a_notice,
    progress_of_a_run_is_recorded_while_it_runs,
    a_destination_that_takes_rows_too_slowly_loses_its_slot,
    old_runs_are_deleted_by_the_leader,
);

const ANOTHER: ProjectId = ProjectId(4_711);

/// Number of an event, and the times of its arrival and its own, in microseconds since the start.
type Event = (u64, i64, i64);

/// Creates events of one window: some that are up to `late_max` windows late, and several that
/// arrive at the same instant.
fn arrivals(
    env: &TestEnv,
    random: &mut StdRng,
    window: i64,
    late_max: i64,
    next: &mut u64,
) -> Vec<Event> {
    let (start, length) = (env.window_start(window), env.window_micros());
    let count = random.random_range(0..200);
    let instants: Vec<i64> = (0..20).map(|_| random.random_range(0..length)).collect();
    (0..count)
        .map(|_| {
            *next += 1;
            let arrived = start + instants[random.random_range(0..instants.len())];
            let late = random.random_range(0..late_max) * random.random_range(0..length);
            (*next, arrived, arrived - late)
        })
        .collect()
}

async fn every_event_is_in_one_window_though_processes_die(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let export = env.export(json!({})).await;
    let mut random = StdRng::seed_from_u64(7);
    let (mut next, mut cut_off) = (0, 0);
    let windows: i64 = number_from_env("MILLRACE_EXPORT_KILLS", 9);
    for window in 0..windows {
        let rows = arrivals(&env, &mut random, window, 40, &mut next);
        env.store(env.project_id, &rows).await;
        env.store(ANOTHER, &[(next, window * WINDOW, 0)]).await;
        env.pass((window + 1) * WINDOW).await;
        // The process is killed at any moment, and every third time while a run is under way,
        // unless that ends too quickly.
        let before = env.claims(export.id).await;
        let process = env.start();
        let mut lives_millis = random.random_range(0..1_500);
        if window % 3 == 0 {
            let count = window as usize + 1;
            env.until_under_way(export.id, &before, count).await;
            lives_millis /= 50;
        }
        tokio::time::sleep(Duration::from_millis(lives_millis)).await;
        process.kill();
        let left = env.claims(export.id).await;
        cut_off += usize::from(left.iter().any(|claim| !before.contains(claim)));
    }
    let _last = env.start();
    let count = usize::try_from(windows).unwrap();
    let runs = env.until_ended(export.id, count).await;
    assert_eq!(runs.len(), count);
    let stored = env.stored(env.project_id);
    assert_eq!(env.exported(), stored);
    let events = stored.len();
    println!("{events} events; {cut_off} times a run was under way when its process died");
    let mut completed = 0;
    for run in runs {
        assert_eq!((run.status, run.latest_error), (RunStatus::Completed, None));
        assert_eq!(run.records_completed, run.records_total_count);
        completed += run.records_completed.unwrap();
    }
    assert_eq!(completed, stored.len() as i64);
}

async fn a_failing_backfill_does_not_affect_others(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    env.store(env.project_id, &[(1, -WINDOW, -WINDOW)]).await;
    // As if an earlier version had accepted the query.
    let mut new = new_export(DestinationType::FileSystem, &json!({"path": "never"}));
    new.hogql_query = Some("SELECT * FROM system.tables".to_owned());
    let failing = env.make(new).await;
    let good = env.export(json!({})).await;
    let fails = env.backfill(failing.id, None, None).await;
    let succeeds = env.backfill(good.id, None, None).await;
    env.pass(0).await;
    let _process = env.start();
    let ended = env.backfill_ended(good.id, succeeds).await;
    assert_eq!(ended, RunStatus::Completed);
    assert_eq!(env.exported(), [1]);
    let ended = env.backfill_ended(failing.id, fails).await;
    assert_eq!(ended, RunStatus::Failed);
}

async fn an_export_that_never_ran_is_backfilled(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    env.store(env.project_id, &[(1, -WINDOW, -WINDOW)]).await;
    let mut new = new_export(DestinationType::FileSystem, &json!({"path": "out"}));
    new.paused = true;
    let export = env.make(new).await;
    env.pass(0).await;
    let backfill = env.backfill(export.id, None, None).await;
    let _process = env.start();
    let ended = env.backfill_ended(export.id, backfill).await;
    assert_eq!(ended, RunStatus::Completed);
    assert_eq!(env.exported(), [1]);
}

async fn an_empty_backfill_has_a_reason(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let export = env.export(json!({})).await;
    // All events arrive after the export was created.
    env.store(env.project_id, &[(1, 1, 1)]).await;
    env.pass(2 * WINDOW).await;
    let young = env.backfill(export.id, None, None).await;
    // The window after that is empty.
    env.pass_time(2 * WINDOW);
    let later = env.backfill(export.id, Some(WINDOW), None).await;
    let _process = env.start();
    for (id, words) in [
        (young, "had arrived by"),
        (later, "no rows that the export selects arrived from"),
    ] {
        let ended = env.backfill_ended(export.id, id).await;
        let backfill = env.backfill_of(export.id, id).await;
        assert_eq!(
            (ended, backfill.total_runs),
            (RunStatus::Completed, Some(0))
        );
        let message = backfill.message.unwrap();
        assert!(message.contains(words), "{message}");
    }
}

async fn a_run_that_cannot_succeed_is_given_up_with_a_notice(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    // Nobody listens there.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let config = json!({
        "host": "127.0.0.1", "port": port, "database": "d", "user": "u", "password": "p",
    });
    let export = env.export_to(DestinationType::Postgres, config).await;
    env.store(env.project_id, &[(1, 0, 0)]).await;
    env.pass(WINDOW).await;
    let _process = env.start();
    let runs = env.until_ended(export.id, 1).await;
    assert_eq!(
        (runs[0].status, runs[0].failures_count),
        (RunStatus::Failed, 5)
    );
    assert!(runs[0].latest_error.is_some());
    let notices = env.until_notified().await;
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert_eq!(notices[0].0, Notice::RunFailed);
}

async fn progress_of_a_run_is_recorded_while_it_runs(database: TestDatabase) {
    const ROWS: i64 = 5_000;
    let env = TestEnv::open(&database).await;
    let server = SlowServer::start().await;
    let config = json!({"url": server.url(), "token": "t"});
    let export = env.export_to(DestinationType::Http, config).await;
    let rows: Vec<_> = (0..ROWS).map(|n| (n as u64, n, n)).collect();
    env.store(env.project_id, &rows).await;
    env.pass(WINDOW).await;
    let _process = env.start();
    let running = env
        .until_run(export.id, |run| run.bytes_exported > Some(0))
        .await;
    assert_eq!(running.status, RunStatus::Running, "{running:?}");
    assert_eq!(running.records_total_count, Some(ROWS));
    assert!(running.records_completed < Some(ROWS), "{running:?}");
    // Only the first batch was sent: the others wait.
    assert_eq!(running.bytes_exported, Some(server.taken()), "{running:?}");
    server.go_on();
    let runs = env.until_ended(export.id, 1).await;
    assert_eq!(runs[0].status, RunStatus::Completed, "{runs:?}");
    assert_eq!(runs[0].records_completed, Some(ROWS));
    assert!(runs[0].bytes_exported > running.bytes_exported, "{runs:?}");
    assert_eq!(runs[0].bytes_exported, Some(server.taken()), "{runs:?}");
}

async fn a_destination_that_takes_rows_too_slowly_loses_its_slot(database: TestDatabase) {
    const ROWS: i64 = 3_000;
    let mut env = TestEnv::open(&database).await;
    env.pace = MinimumPace {
        window: Duration::from_millis(300),
        bytes_per_second: 100_000_000,
    };
    let server = SlowServer::start().await;
    let config = json!({"url": server.url(), "token": "t"});
    let export = env.export_to(DestinationType::Http, config).await;
    let rows: Vec<_> = (0..ROWS).map(|n| (n as u64, n, n)).collect();
    env.store(env.project_id, &rows).await;
    env.pass(WINDOW).await;
    let _process = env.start();
    let is_slow = |error: &String| error.contains("too slowly");
    env.until_run(export.id, |run| {
        run.latest_error.as_ref().is_some_and(is_slow)
    })
    .await;
}

async fn old_runs_are_deleted_by_the_leader(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let export = env.export(json!({})).await;
    env.store(env.project_id, &[(1, 0, 0)]).await;
    env.pass(15 * WINDOW).await;
    let _process = env.start();
    env.until_ended(export.id, 15).await;
    env.until_lines(export.id, |count| count >= 15).await;
    env.pass_time(40 * 86_400 * 1_000_000);
    env.until_lines(export.id, |count| count == 0).await;
    assert_eq!(env.runs(export.id).await.len(), 15);
    env.pass_time(400 * 86_400 * 1_000_000);
    let left = async {
        while env.runs(export.id).await.len() > 10 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let left = tokio::time::timeout(Duration::from_secs(120), left).await;
    left.expect("the runs stay");
    assert_eq!(env.exported(), [1], "what they delivered stays");
}
