//! Backfills beside windows by the clock, of every interval: each event is delivered once, or in
//! the same files again.

use super::arrivals;
use super::test_env::{NOW, TestEnv};
use flate2::read::MultiGzDecoder;
use millrace_catalog::testing::{TestDatabase, on_both};
use millrace_catalog::{BatchExportRun, RunStatus, UtcTime};
use millrace_exports::{Backfills, ExportInterval, ExportPlanner};
use millrace_rows::testing::number_from_env;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::time::Duration;

on_both!(
    a_backfill_makes_the_same_files_with_the_same_rows_again,
    a_backfill_and_windows_by_the_clock_have_each_event_once,
    a_pause_and_its_backfill_have_each_event_once_when_the_interval_changes,
    a_backfill_ends_with_the_runs_it_has_when_rows_were_deleted,
);

const INTERVALS: [ExportInterval; 5] = [
    ExportInterval::Minutes(5),
    ExportInterval::Minutes(59),
    ExportInterval::Hour,
    ExportInterval::Day,
    ExportInterval::Week,
];

/// Windows by which an event is late at most.
const LATE_MAX: i64 = 12;

/// Runs a test for every interval, each in a database of its own. Intervals are none of the
/// database's business, so on PostgreSQL it is one of minutes and one of days; all of them in
/// `make torture-exports` (`MILLRACE_INTERVAL_STEP`).
async fn for_every_interval(database: TestDatabase, test: impl AsyncFn(TestEnv)) {
    let step = match database.is_sqlite() {
        true => 1,
        false => number_from_env("MILLRACE_INTERVAL_STEP", 3),
    };
    for interval in INTERVALS.into_iter().step_by(step) {
        let database = TestDatabase::of(database.kind()).await;
        let mut env = TestEnv::open(&database).await;
        env.interval = interval;
        println!("{interval}");
        test(env).await;
    }
}

/// Rows of each compressed file, sorted: ClickHouse reads with two threads and merges what it has
/// stored, so a repeated run may write the rows of a window in another order.
fn rows_of_files(env: &TestEnv) -> BTreeMap<String, Vec<String>> {
    let rows = |bytes: Vec<u8>| {
        let mut text = String::new();
        let mut file = MultiGzDecoder::new(bytes.as_slice());
        file.read_to_string(&mut text).unwrap();
        let mut rows: Vec<String> = text.lines().map(str::to_owned).collect();
        rows.sort_unstable();
        rows
    };
    let files = env.files().into_iter();
    files.map(|(name, bytes)| (name, rows(bytes))).collect()
}

async fn a_backfill_makes_the_same_files_with_the_same_rows_again(database: TestDatabase) {
    for_every_interval(database, async |env: TestEnv| {
        let export = env.export(json!({"compression": "gzip"})).await;
        let mut random = StdRng::seed_from_u64(8);
        let mut next = 0;
        for window in 0..5 {
            let rows = arrivals(&env, &mut random, window, LATE_MAX, &mut next);
            env.store(env.project_id, &rows).await;
        }
        env.pass(env.window_start(5)).await;
        let _process = env.start();
        env.until_ended(export.id, 5).await;
        let files = rows_of_files(&env);
        assert!(files.len() > 2, "{:?}", files.keys());
        let rows_count: usize = files.values().map(Vec::len).sum();
        assert_eq!(rows_count, env.stored(env.project_id).len());
        for name in files.keys() {
            std::fs::remove_file(env.root().join(name)).unwrap();
        }
        env.pass_time(5 * env.window_micros());
        // In the middle of the first window.
        let start = env.window_start(0) + env.window_micros() / 2;
        env.backfill(export.id, Some(start), None).await;
        let runs = env.until_ended(export.id, 5 + files.len()).await;
        assert!(
            runs.iter().all(|run| run.status == RunStatus::Completed),
            "{runs:?}"
        );
        assert_eq!(rows_of_files(&env), files);
    })
    .await;
}

async fn a_backfill_and_windows_by_the_clock_have_each_event_once(database: TestDatabase) {
    for_every_interval(database, async |env: TestEnv| {
        let mut random = StdRng::seed_from_u64(9);
        let mut next = 0;
        // Events from before the export, and old ones that arrive while it runs.
        for window in -3..0 {
            let rows = arrivals(&env, &mut random, window, LATE_MAX, &mut next);
            env.store(env.project_id, &rows).await;
        }
        let export = env.export(json!({})).await;
        let (length, arrived) = (env.window_micros(), env.window_start(0));
        let arrived = arrived + length / 2;
        let old = [
            (next + 1, arrived, arrived - 900 * length),
            (next + 2, arrived, arrived - length),
        ];
        env.store(env.project_id, &old).await;
        env.pass(env.window_start(2)).await;
        env.pass_time(2 * length);
        let backfill = env.backfill(export.id, None, None).await;
        let _process = env.start();
        let ended = env.backfill_ended(export.id, backfill).await;
        assert_eq!(ended, RunStatus::Completed);
        let settled = async {
            while env.exported() != env.stored(env.project_id) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let settled = tokio::time::timeout(Duration::from_secs(120), settled).await;
        settled.unwrap_or_else(|_| panic!("{:?}", env.exported()));
    })
    .await;
}

/// Case of a node that is down and keeps the watermark where it is.
async fn a_pause_and_its_backfill_have_each_event_once_when_the_interval_changes(
    database: TestDatabase,
) {
    const MINUTE: i64 = 60_000_000;
    let env = TestEnv::open(&database).await;
    let export = env.export(json!({})).await;
    let minutes = (0..200).map(|n: i64| (n as u64, n * MINUTE, n * MINUTE));
    let minutes: Vec<_> = minutes.collect();
    env.store(env.project_id, &minutes).await;
    let planned = ExportPlanner::new(&env.catalog)
        .plan_windows(at(5 * MINUTE))
        .await;
    assert_eq!(planned.unwrap(), 1);
    // Paused from 0:13 to 1:53: what is skipped begins at 0:05, and not at the hour.
    env.pass_time(13 * MINUTE);
    env.pause(export.id).await;
    env.change_interval(export.id, ExportInterval::Hour).await;
    env.pass_time(100 * MINUTE);
    let first = env.unpause(export.id).await;
    // And from 2:00 to 3:10.
    env.pass_time(7 * MINUTE);
    env.pause(export.id).await;
    env.pass_time(70 * MINUTE);
    let second = env.unpause(export.id).await;
    env.change_interval(export.id, ExportInterval::Day).await;
    env.pass(24 * 60 * MINUTE).await;
    let _process = env.start();
    for backfill in [first, second] {
        let ended = env.backfill_ended(export.id, backfill).await;
        assert_eq!(ended, RunStatus::Completed);
    }
    // By the clock 0:00 to 0:05, 1:00 to 2:00 and 3:00 to 24:00.
    let runs = env.until_ended(export.id, 5).await;
    let window = |run: &BatchExportRun| {
        let minutes = |time: UtcTime| (time.0 - NOW.0) / MINUTE;
        let start = run.data_interval_start.unwrap();
        (minutes(start), minutes(run.data_interval_end))
    };
    assert_eq!(
        runs.iter().map(window).collect::<Vec<_>>(),
        [(0, 5), (5, 60), (60, 120), (120, 180), (180, 1_440)]
    );
    assert_eq!(env.exported(), env.stored(env.project_id));
}

fn at(micros: i64) -> UtcTime {
    UtcTime(NOW.0 + micros)
}

async fn a_backfill_ends_with_the_runs_it_has_when_rows_were_deleted(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let length = env.window_micros();
    let events = [(1, -length, -length), (2, -2 * length, -2 * length)];
    env.store(env.project_id, &events).await;
    env.pass(0).await;
    let mut counted = Vec::new();
    for (config, left) in [(json!({"include_events": ["none"]}), 0), (json!({}), 2)] {
        let export = env.export(config).await;
        let id = env.backfill(export.id, None, None).await;
        // As another process counted them, which does not lead any more.
        assert!(Backfills::new(&env.catalog).plan(id, 3).await.unwrap());
        counted.push((export.id, id, left));
    }
    let _process = env.start();
    for (export_id, id, left) in counted {
        let ended = env.backfill_ended(export_id, id).await;
        let backfill = env.backfill_of(export_id, id).await;
        assert_eq!(
            (ended, backfill.total_runs),
            (RunStatus::Completed, Some(left))
        );
        assert_eq!(backfill.message.is_some(), left == 0, "{backfill:?}");
    }
}
