//! What runs exports: exactly once, whatever dies.

mod apart;
mod keeper;
mod others;
mod slow_counts;
mod slow_server;
mod stand;
mod stopping;

use millrace_catalog::testing::{TestDatabase, on_both};
use millrace_catalog::{DestinationType, RunStatus, TeamId};
use millrace_exports::engine::Notice;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use slow_server::SlowServer;
use stand::{Stand, WINDOW, new_export};
use std::time::Duration;

on_both!(
    every_event_is_in_one_window_though_processes_die,
    a_backfill_makes_the_same_files_again,
    a_backfill_and_windows_by_the_clock_have_each_event_once,
    a_backfill_that_cannot_be_made_fails_alone,
    an_export_that_never_ran_is_backfilled,
    a_backfill_of_a_young_project_says_why_it_has_no_runs,
    a_run_that_cannot_succeed_is_given_up_and_told,
    a_run_says_how_far_it_is_while_it_runs,
    old_runs_are_forgotten_by_who_leads,
);

const ANOTHER: TeamId = TeamId(4_711);

/// Events of one window: late ones, and several that arrive at the same instant.
fn arrivals(random: &mut rand::rngs::StdRng, window: i64, next: &mut u64) -> Vec<(u64, i64, i64)> {
    let count = random.random_range(0..200);
    let instants: Vec<i64> = (0..20).map(|_| random.random_range(0..WINDOW)).collect();
    (0..count)
        .map(|_| {
            *next += 1;
            let arrived = window * WINDOW + instants[random.random_range(0..instants.len())];
            let late = random.random_range(0..40) * random.random_range(0..WINDOW);
            (*next, arrived, arrived - late)
        })
        .collect()
}

async fn every_event_is_in_one_window_though_processes_die(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    let export = stand.export(json!({})).await;
    let mut random = rand::rngs::StdRng::seed_from_u64(7);
    let (mut next, mut cut_off) = (0, 0);
    for window in 0..30 {
        let rows = arrivals(&mut random, window, &mut next);
        stand.store(stand.team_id, &rows).await;
        stand.store(ANOTHER, &[(next, window * WINDOW, 0)]).await;
        stand.pass((window + 1) * WINDOW).await;
        // It dies without a word: at any moment, and every third time while a run is under way,
        // unless that is too quick to be seen.
        let before = stand.claims(export.id).await;
        let process = stand.start();
        let mut lives_millis = random.random_range(0..1_500);
        if window % 3 == 0 {
            let count = window as usize + 1;
            stand.until_under_way(export.id, &before, count).await;
            lives_millis /= 50;
        }
        tokio::time::sleep(Duration::from_millis(lives_millis)).await;
        process.kill();
        let left = stand.claims(export.id).await;
        cut_off += usize::from(left.iter().any(|claim| !before.contains(claim)));
    }
    let _last = stand.start();
    let runs = stand.until_ended(export.id, 30).await;
    assert_eq!(runs.len(), 30);
    let stored = stand.stored(stand.team_id);
    assert_eq!(stand.exported(), stored);
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

async fn a_backfill_makes_the_same_files_again(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    let export = stand.export(json!({"compression": "gzip"})).await;
    let mut random = rand::rngs::StdRng::seed_from_u64(8);
    let mut next = 0;
    for window in 0..5 {
        let rows = arrivals(&mut random, window, &mut next);
        stand.store(stand.team_id, &rows).await;
    }
    stand.pass(5 * WINDOW).await;
    let _process = stand.start();
    stand.until_ended(export.id, 5).await;
    let names: Vec<String> = stand.files().into_keys().collect();
    for name in &names {
        std::fs::remove_file(stand.root().join(name)).unwrap();
    }
    stand.pass_time(5 * WINDOW);
    stand.backfill(export.id, Some(WINDOW / 2), None).await;
    let runs = stand.until_ended(export.id, 5 + names.len()).await;
    assert!(
        runs.iter().all(|run| run.status == RunStatus::Completed),
        "{runs:?}"
    );
    assert_eq!(stand.files().into_keys().collect::<Vec<_>>(), names);
}

async fn a_backfill_and_windows_by_the_clock_have_each_event_once(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    let mut random = rand::rngs::StdRng::seed_from_u64(9);
    let mut next = 0;
    // From before the export, and some of long ago that come when it runs.
    for window in -6..0 {
        let rows = arrivals(&mut random, window, &mut next);
        stand.store(stand.team_id, &rows).await;
    }
    let export = stand.export(json!({})).await;
    let old = [
        (next + 1, WINDOW / 2, -900 * WINDOW),
        (next + 2, WINDOW / 2, -WINDOW),
    ];
    stand.store(stand.team_id, &old).await;
    stand.pass(2 * WINDOW).await;
    stand.pass_time(2 * WINDOW);
    stand.backfill(export.id, None, None).await;
    let _process = stand.start();
    let settled = async {
        while stand.exported() != stand.stored(stand.team_id) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let settled = tokio::time::timeout(Duration::from_secs(120), settled).await;
    settled.unwrap_or_else(|_| panic!("{:?}", stand.exported()));
}

async fn a_backfill_that_cannot_be_made_fails_alone(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    stand.store(stand.team_id, &[(1, -WINDOW, -WINDOW)]).await;
    // As if it had been taken by an earlier version.
    let mut new = new_export(DestinationType::FileSystem, &json!({"path": "never"}));
    new.hogql_query = Some("SELECT * FROM system.tables".to_owned());
    let hopeless = stand.make(new).await;
    let good = stand.export(json!({})).await;
    let fails = stand.backfill(hopeless.id, None, None).await;
    let succeeds = stand.backfill(good.id, None, None).await;
    stand.pass(0).await;
    let _process = stand.start();
    let ended = stand.backfill_ended(good.id, succeeds).await;
    assert_eq!(ended, RunStatus::Completed);
    assert_eq!(stand.exported(), [1]);
    let ended = stand.backfill_ended(hopeless.id, fails).await;
    assert_eq!(ended, RunStatus::Failed);
}

async fn an_export_that_never_ran_is_backfilled(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    stand.store(stand.team_id, &[(1, -WINDOW, -WINDOW)]).await;
    let mut new = new_export(DestinationType::FileSystem, &json!({"path": "out"}));
    new.paused = true;
    let export = stand.make(new).await;
    stand.pass(0).await;
    let backfill = stand.backfill(export.id, None, None).await;
    let _process = stand.start();
    let ended = stand.backfill_ended(export.id, backfill).await;
    assert_eq!(ended, RunStatus::Completed);
    assert_eq!(stand.exported(), [1]);
}

async fn a_backfill_of_a_young_project_says_why_it_has_no_runs(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    let export = stand.export(json!({})).await;
    // All that there is arrives after the export was made.
    stand.store(stand.team_id, &[(1, 1, 1)]).await;
    stand.pass(2 * WINDOW).await;
    let young = stand.backfill(export.id, None, None).await;
    // And nothing in the window after that.
    stand.pass_time(2 * WINDOW);
    let later = stand.backfill(export.id, Some(WINDOW), None).await;
    let _process = stand.start();
    for (id, words) in [
        (young, "had arrived by"),
        (later, "nothing that the export takes arrived from"),
    ] {
        let ended = stand.backfill_ended(export.id, id).await;
        let backfill = stand.backfill_of(export.id, id).await;
        assert_eq!(
            (ended, backfill.total_runs),
            (RunStatus::Completed, Some(0))
        );
        let message = backfill.message.unwrap();
        assert!(message.contains(words), "{message}");
    }
}

async fn a_run_that_cannot_succeed_is_given_up_and_told(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    // Nobody listens there.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let config = json!({
        "host": "127.0.0.1", "port": port, "database": "d", "user": "u", "password": "p",
    });
    let export = stand.export_to(DestinationType::Postgres, config).await;
    stand.store(stand.team_id, &[(1, 0, 0)]).await;
    stand.pass(WINDOW).await;
    let _process = stand.start();
    let runs = stand.until_ended(export.id, 1).await;
    assert_eq!(
        (runs[0].status, runs[0].failures_count),
        (RunStatus::Failed, 5)
    );
    assert!(runs[0].latest_error.is_some());
    let told = stand.until_told().await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].0, Notice::RunFailed);
}

async fn a_run_says_how_far_it_is_while_it_runs(database: TestDatabase) {
    const ROWS: i64 = 5_000;
    let stand = Stand::open(&database).await;
    let server = SlowServer::start().await;
    let config = json!({"url": server.url(), "token": "t"});
    let export = stand.export_to(DestinationType::Http, config).await;
    let rows: Vec<_> = (0..ROWS).map(|n| (n as u64, n, n)).collect();
    stand.store(stand.team_id, &rows).await;
    stand.pass(WINDOW).await;
    let _process = stand.start();
    let running = stand
        .until_run(export.id, |run| run.bytes_exported > Some(0))
        .await;
    assert_eq!(running.status, RunStatus::Running, "{running:?}");
    assert_eq!(running.records_total_count, Some(ROWS));
    assert!(running.records_completed < Some(ROWS), "{running:?}");
    // The first batch, as it was sent: the others wait.
    assert_eq!(running.bytes_exported, Some(server.taken()), "{running:?}");
    server.go_on();
    let runs = stand.until_ended(export.id, 1).await;
    assert_eq!(runs[0].status, RunStatus::Completed, "{runs:?}");
    assert_eq!(runs[0].records_completed, Some(ROWS));
    assert!(runs[0].bytes_exported > running.bytes_exported, "{runs:?}");
    assert_eq!(runs[0].bytes_exported, Some(server.taken()), "{runs:?}");
}

async fn old_runs_are_forgotten_by_who_leads(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    let export = stand.export(json!({})).await;
    stand.store(stand.team_id, &[(1, 0, 0)]).await;
    stand.pass(15 * WINDOW).await;
    let _process = stand.start();
    stand.until_ended(export.id, 15).await;
    stand.until_lines(export.id, |count| count >= 15).await;
    stand.pass_time(40 * 86_400 * 1_000_000);
    stand.until_lines(export.id, |count| count == 0).await;
    assert_eq!(stand.runs(export.id).await.len(), 15);
    stand.pass_time(400 * 86_400 * 1_000_000);
    let left = async {
        while stand.runs(export.id).await.len() > 10 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let left = tokio::time::timeout(Duration::from_secs(120), left).await;
    left.expect("the runs stay");
    assert_eq!(stand.exported(), [1], "what they delivered stays");
}
