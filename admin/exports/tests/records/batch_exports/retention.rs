//! Retention of runs, backfills and log lines: the old ones are deleted, and some stay.

use super::claims::{LONG, begun, claim, record};
use super::{HOUR, TestEnv};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{BatchExportRun, LogLevel, RunStatus, UtcTime};
use millrace_exports::{
    Backfills, BatchExports, ExportLogFilter, ExportLogs, ExportPlanner, ExportRuns, NewExportLog,
    RunFilter, RunOrder,
};
use millrace_organizations::testing::fixture::{ALL, NOW};
use std::time::Duration;
use uuid::Uuid;

on_both!(
    old_runs_are_pruned_in_pieces_but_for_the_ten_newest,
    the_last_completed_run_and_open_runs_are_never_pruned,
    runs_of_an_open_backfill_stay_and_an_ended_backfill_is_pruned_with_them,
    log_lines_are_pruned_before_their_runs,
    retention_queries_use_an_index,
);

const DAY: i64 = 24 * HOUR;

fn days(count: u64) -> Duration {
    Duration::from_secs(count * 86_400)
}

/// Makes runs of an export that end with these statuses, one after the other; answers their ids.
async fn ended(
    env: &TestEnv,
    export_id: Uuid,
    backfill_id: Option<Uuid>,
    statuses: &[RunStatus],
) -> Vec<Uuid> {
    let mut ids = Vec::new();
    for status in statuses {
        env.fixture.pass_micros(1);
        let catalog = &env.fixture.catalog;
        let seen = BatchExports::new(catalog).get(env.place(), export_id).await;
        let number = seen.unwrap().unwrap().export.runs_count;
        begun(env, export_id, backfill_id, number).await;
        let claimed = claim(env, LONG).await.unwrap();
        record(env, &claimed, *status).await;
        ids.push(claimed.run.id);
    }
    ids
}

/// Ids of the remaining runs, the latest window first.
async fn left(env: &TestEnv, export_id: Uuid) -> Vec<Uuid> {
    let rows = left_runs(env, export_id).await;
    rows.into_iter().map(|run| run.id).collect()
}

/// Number of the remaining runs of a backfill.
async fn left_of(env: &TestEnv, export_id: Uuid, backfill_id: Uuid) -> usize {
    let rows = left_runs(env, export_id).await;
    let own = rows
        .iter()
        .filter(|run| run.backfill_id == Some(backfill_id));
    own.count()
}

async fn left_runs(env: &TestEnv, export_id: Uuid) -> Vec<BatchExportRun> {
    let filter = RunFilter {
        order: RunOrder::LatestWindowFirst,
        ..RunFilter::default()
    };
    let catalog = &env.fixture.catalog;
    let listed = ExportRuns::new(catalog).list(env.place(), export_id, filter, ALL);
    listed.await.unwrap().unwrap().rows
}

/// Deletes runs that ended a day ago, examining `limit` at a time; answers how many were deleted,
/// and in how many pieces.
async fn forget(env: &TestEnv, limit: u64) -> (u64, usize) {
    let (mut count, mut pieces, mut from) = (0, 0, None);
    loop {
        let catalog = &env.fixture.catalog;
        let piece = ExportPlanner::new(catalog)
            .prune_runs(days(1), from, limit)
            .await;
        let piece = piece.unwrap();
        count += piece.count;
        pieces += 1;
        if piece.next.is_none() {
            return (count, pieces);
        }
        from = piece.next;
    }
}

async fn old_runs_are_pruned_in_pieces_but_for_the_ten_newest(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (one, other) = (env.made().await.id, env.made().await.id);
    let old = ended(&env, one, None, &[RunStatus::Completed; 17]).await;
    let few = ended(&env, other, None, &[RunStatus::Failed; 9]).await;
    assert_eq!(forget(&env, 7).await, (0, 1), "they ended just now");
    env.fixture.pass_micros(DAY);
    assert_eq!(forget(&env, 7).await, (7, 4), "of 26 runs");
    let mut kept = left(&env, one).await;
    kept.reverse();
    assert_eq!(kept, old[7..]);
    assert_eq!(left(&env, other).await.len(), few.len());
    let seen = BatchExports::new(&env.fixture.catalog)
        .get(env.place(), one)
        .await;
    let seen = seen.unwrap().unwrap();
    let newest: Vec<Uuid> = seen.latest_runs.iter().rev().map(|run| run.id).collect();
    assert_eq!(newest, old[7..], "what is answered with an export is there");
    let next = ended(&env, one, None, &[RunStatus::Completed; 3]).await;
    assert_eq!(forget(&env, 7).await.0, 3);
    assert_eq!(left(&env, one).await[..3], [next[2], next[1], next[0]]);
}

async fn the_last_completed_run_and_open_runs_are_never_pruned(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let id = env.made().await.id;
    let mut statuses = vec![RunStatus::Completed, RunStatus::Completed];
    // Nine at most: ten pause an export.
    statuses.extend([RunStatus::Failed; 9]);
    statuses.extend([RunStatus::FailedRetryable, RunStatus::Cancelled]);
    statuses.extend([RunStatus::TimedOut; 8]);
    let runs = ended(&env, id, None, &statuses).await;
    let again = ExportRuns::new(catalog).retry(actor, place, id, runs[4]);
    again.await.unwrap();
    env.fixture.pass_micros(DAY);
    forget(&env, 100).await;
    let mut kept = left(&env, id).await;
    kept.reverse();
    // The one that completed, the one that was started again, and the ten newest.
    let expected = [&[runs[1], runs[4]], &runs[11..]].concat();
    assert_eq!(kept, expected);
}

async fn runs_of_an_open_backfill_stay_and_an_ended_backfill_is_pruned_with_them(
    database: TestDatabase,
) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let id = env.made().await.id;
    let backfill = env.backfill(id).await;
    Backfills::new(catalog).plan(backfill, 3).await.unwrap();
    ended(&env, id, Some(backfill), &[RunStatus::Completed; 2]).await;
    ended(&env, id, None, &[RunStatus::Completed; 10]).await;
    env.fixture.pass_micros(DAY);
    assert_eq!(forget(&env, 100).await.0, 0, "it has not ended");
    let to_plan = env.backfills_to_plan().await;
    assert_eq!(to_plan.len(), 1, "two of three");
    let [last] = ended(&env, id, Some(backfill), &[RunStatus::Completed]).await[..] else {
        panic!("one run");
    };
    assert_eq!(forget(&env, 100).await.0, 3, "what is older than a day");
    assert_eq!(left_of(&env, id, backfill).await, 1);
    let again = ExportRuns::new(catalog).retry(actor, place, id, last);
    again.await.unwrap();
    let to_plan = env.backfills_to_plan().await;
    assert!(
        to_plan.is_empty(),
        "two are forgotten, and done all the same"
    );
    let claimed = claim(&env, LONG).await.unwrap();
    record(&env, &claimed, RunStatus::Completed).await;
    ended(&env, id, None, &[RunStatus::Completed; 10]).await;
    env.fixture.pass_micros(DAY);
    let gone = ExportPlanner::new(catalog)
        .prune_backfills(days(1), 9)
        .await;
    assert_eq!(gone.unwrap(), 0, "it has a run");
    forget(&env, 100).await;
    assert_eq!(left_of(&env, id, backfill).await, 0);
    for expected in [1, 0] {
        let gone = ExportPlanner::new(catalog)
            .prune_backfills(days(1), 9)
            .await;
        assert_eq!(gone.unwrap(), expected);
    }
    let seen = Backfills::new(catalog).get(place, id, backfill).await;
    assert_eq!(seen.unwrap(), None);
}

async fn log_lines_are_pruned_before_their_runs(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    let id = env.made().await.id;
    let [run] = ended(&env, id, None, &[RunStatus::Completed]).await[..] else {
        panic!("one run");
    };
    let say = async |message: &str| {
        let line = NewExportLog {
            level: LogLevel::Info,
            message: message.to_owned(),
        };
        let written = ExportLogs::new(catalog).write(id, run, vec![line]);
        written.await.unwrap();
    };
    for message in ["one", "two", "three"] {
        say(message).await;
    }
    env.fixture.pass_micros(DAY + 1);
    say("four").await;
    for expected in [2, 1, 0] {
        let gone = ExportPlanner::new(catalog).prune_logs(days(1), 2).await;
        assert_eq!(gone.unwrap(), expected);
    }
    let filter = ExportLogFilter::default();
    let listed = ExportLogs::new(catalog).list(env.place(), id, &filter, ALL);
    let lines = listed.await.unwrap().unwrap().rows;
    let messages: Vec<_> = lines.iter().map(|line| line.message.as_str()).collect();
    assert_eq!(messages, ["four"]);
    assert_eq!(left(&env, id).await, [run]);
}

async fn retention_queries_use_an_index(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (counted, count) = env.fixture.catalog.counted();
    ExportPlanner::new(&counted)
        .prune_runs(days(1), None, 7)
        .await
        .unwrap();
    ExportPlanner::new(&counted)
        .prune_logs(days(1), 7)
        .await
        .unwrap();
    let statements = count.take();
    assert_eq!(statements.len(), 2, "{statements:?}");
    if !database.is_sqlite() {
        return;
    }
    let at = UtcTime(NOW.0).0.to_string();
    for (statement, index) in statements
        .iter()
        .zip(["batch_export_runs_by_end", "batch_export_logs_by_time"])
    {
        let plan = database.sqlite_plan(&statement.replace('?', &at)).await;
        let plan = plan.unwrap().join("\n");
        assert!(plan.contains(index), "{statement}: {plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{statement}: {plan}");
    }
}
