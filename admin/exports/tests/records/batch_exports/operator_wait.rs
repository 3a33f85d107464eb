//! Exports that wait for the server's operator: no try is used up, and the administrators are told
//! once.

use super::claims::{LONG, begun, claim};
use super::{HOUR, TestEnv};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{BatchExport, RunStatus};
use millrace_exports::{BatchExports, ClaimedRun, ExportRuns, RunOutcome, RunProgress};
use std::time::Duration;
use uuid::Uuid;

on_both!(
    waiting_for_the_operator_uses_up_no_tries,
    a_long_wait_is_reported_once_until_the_export_runs_again,
);

async fn record(env: &TestEnv, claimed: &ClaimedRun, status: RunStatus, waits: bool) -> RunOutcome {
    let progress = RunProgress {
        status,
        records_completed: None,
        records_total_count: None,
        bytes_exported: None,
        cursor: None,
        latest_error: None,
        waits,
    };
    let (id, claim) = (claimed.run.id, claimed.run.claim);
    let catalog = &env.fixture.catalog;
    let recorded = ExportRuns::new(catalog).record(id, claim, progress, Duration::ZERO);
    recorded.await.unwrap()
}

async fn export(env: &TestEnv, id: Uuid) -> BatchExport {
    let found = BatchExports::new(&env.fixture.catalog).get(env.place(), id);
    found.await.unwrap().unwrap().export
}

async fn waiting_for_the_operator_uses_up_no_tries(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let id = env.made().await.id;
    begun(&env, id, None, 0).await;
    for _ in 0..6 {
        let claimed = claim(&env, LONG).await.unwrap();
        assert_eq!(claimed.run.failures_count, 0);
        let outcome = record(&env, &claimed, RunStatus::FailedRetryable, true).await;
        assert_eq!(outcome, RunOutcome::Kept);
    }
    let claimed = claim(&env, LONG).await.unwrap();
    record(&env, &claimed, RunStatus::FailedRetryable, false).await;
    let claimed = claim(&env, LONG).await.unwrap();
    assert_eq!(claimed.run.failures_count, 1, "the first that failed");
}

async fn a_long_wait_is_reported_once_until_the_export_runs_again(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (id, other) = (env.made().await.id, env.made().await.id);
    begun(&env, id, None, 0).await;
    begun(&env, id, None, 1).await;
    let exports = BatchExports::new(&env.fixture.catalog);
    let since = env.fixture.now();
    let first = claim(&env, LONG).await.unwrap();
    assert_eq!(first.export.id, id);
    let wait =
        async |claimed: &ClaimedRun| record(&env, claimed, RunStatus::FailedRetryable, true).await;
    assert_eq!(exports.waiting().await.unwrap(), 0);
    assert_eq!(wait(&first).await, RunOutcome::Kept);
    let recorded = async |claimed: &ClaimedRun| {
        let runs = ExportRuns::new(&env.fixture.catalog);
        let recorded = runs.recorded(claimed.run.id, RunStatus::FailedRetryable);
        recorded.await.unwrap()
    };
    assert_eq!(recorded(&first).await, RunOutcome::Kept);
    assert_eq!(exports.waiting().await.unwrap(), 1);
    let after = export(&env, id).await;
    assert_eq!(after.waits_since.map(|at| at.0), Some(since.0));
    begun(&env, other, None, 0).await;
    env.fixture.pass_micros(HOUR);
    // The second run of the same export, claimed and on its way meanwhile, says nothing of the
    // wait.
    let second = loop {
        let claimed = claim(&env, LONG).await.unwrap();
        if claimed.export.id == id {
            break claimed;
        }
    };
    let outcome = record(&env, &second, RunStatus::Running, false).await;
    assert_eq!(outcome, RunOutcome::Kept);
    assert_eq!(wait(&second).await, RunOutcome::WaitsLong);
    assert_eq!(recorded(&second).await, RunOutcome::WaitsLong);
    let told = export(&env, id).await;
    assert_eq!(told.waits_since, after.waits_since);
    assert!(told.wait_told_at.is_some());
    assert_eq!(export(&env, other).await.waits_since, None);
    let runs = database.first_column(
        "SELECT CAST(COUNT(*) AS TEXT) FROM batch_export_runs WHERE failures_count > 0",
    );
    assert_eq!(runs.await.unwrap(), ["0"]);
    env.fixture.pass_micros(9 * HOUR);
    begun(&env, id, None, 7).await;
    let third = loop {
        let claimed = claim(&env, LONG).await.unwrap();
        if claimed.export.id == id {
            break claimed;
        }
    };
    assert_eq!(wait(&third).await, RunOutcome::Kept, "once");
    begun(&env, id, None, 8).await;
    let runs_again = loop {
        let claimed = claim(&env, LONG).await.unwrap();
        if claimed.export.id == id {
            break claimed;
        }
    };
    record(&env, &runs_again, RunStatus::Completed, false).await;
    let after = export(&env, id).await;
    assert_eq!((after.waits_since, after.wait_told_at), (None, None));
    assert!(!after.paused);
    assert_eq!(exports.waiting().await.unwrap(), 0);
}
