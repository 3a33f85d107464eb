//! Tests of a worker whose catalog answers nothing but the lease.

use super::test_env::{TestEnv, options};
use millrace_catalog::leases::PERSONS_LEASE;
use millrace_catalog::testing::{DatabaseKind, TestDatabase};
use millrace_persons::WorkerOptions;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Lifetime of the test's own lease.
const LIFETIME: Duration = Duration::from_millis(400);

/// Asks for the lease until the answer is as expected.
async fn until_held(env: &TestEnv, is_held: bool, time: Duration) {
    let another = Uuid::new_v4();
    let asking = async {
        while env
            .catalog
            .hold_lease(PERSONS_LEASE, another, time)
            .await
            .unwrap()
            != is_held
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let asked = tokio::time::timeout(Duration::from_secs(120), asking).await;
    asked.expect("the lease stays where it is");
}

/// Has every question about persons wait for a transaction, and none about the lease.
fn silence(database: &TestDatabase) {
    let locking = database.again();
    tokio::spawn(async move {
        let lock =
            "BEGIN; LOCK TABLE person_progress IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600)";
        locking.execute(lock).await
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_round_does_not_end_gives_its_lease_up() {
    let database = TestDatabase::of(DatabaseKind::Postgres).await;
    let env = TestEnv::open(&database).await;
    let worker = env.worker_with(WorkerOptions {
        round_max: Duration::from_secs(2),
        ..options(1_000)
    });
    let _running = tokio::spawn(async move { worker.run(std::future::pending()).await });
    until_held(&env, false, Duration::ZERO).await;
    silence(&database);
    until_held(&env, true, LIFETIME).await;
}

/// Regression: the lease was extended until the round had ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_stopped_gives_its_lease_up_before_its_round_ends() {
    let database = TestDatabase::of(DatabaseKind::Postgres).await;
    let env = TestEnv::open(&database).await;
    let worker = env.worker_with(WorkerOptions {
        // It does not lapse by itself.
        lapse_after: Duration::from_secs(3_600),
        ..options(1_000)
    });
    let stop = CancellationToken::new();
    let stopped = stop.clone().cancelled_owned();
    let _running = tokio::spawn(async move { worker.run(stopped).await });
    until_held(&env, false, Duration::ZERO).await;
    silence(&database);
    let waiting = "SELECT CAST(count(*) AS TEXT) FROM pg_locks WHERE NOT granted \
         AND mode <> 'AccessExclusiveLock' AND relation = 'person_progress'::regclass \
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let hangs = async {
        while database.first_column(waiting).await.unwrap() == ["0"] {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let hangs = tokio::time::timeout(Duration::from_secs(120), hangs).await;
    hangs.expect("no round waits for the catalog");
    stop.cancel();
    until_held(&env, true, LIFETIME).await;
}
