//! Test of a leader whose catalog answers nothing but the lease.

use super::test_env::{CLAIM, TestEnv, WINDOW};
use millrace_catalog::RunStatus;
use millrace_catalog::leases::EXPORTS_LEASE;
use millrace_catalog::testing::{DatabaseKind, TestDatabase};
use serde_json::json;
use std::time::Duration;
use tokio_postgres::NoTls;
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_without_an_answer_gives_its_lease_up_and_begins_anew() {
    let database = TestDatabase::of(DatabaseKind::Postgres).await;
    let env = TestEnv::open(&database).await;
    let export_id = env.export(json!({})).await.id;
    env.store(env.project_id, &[(1, 0, 0), (2, WINDOW, WINDOW)])
        .await;
    env.pass(WINDOW).await;
    let _process = env.start();
    env.until_ended(export_id, 1).await;

    // Every question about exports waits for this transaction, and none about the lease.
    let connected = tokio_postgres::connect(database.url(), NoTls).await;
    let (client, connection) = connected.unwrap();
    let _connection = tokio::spawn(connection);
    let lock = "BEGIN; LOCK TABLE batch_exports IN ACCESS EXCLUSIVE MODE";
    client.batch_execute(lock).await.unwrap();
    let (catalog, another) = (&env.catalog, Uuid::new_v4());
    let given_up = async {
        while !catalog
            .hold_lease(EXPORTS_LEASE, another, CLAIM)
            .await
            .unwrap()
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let given_up = tokio::time::timeout(Duration::from_secs(120), given_up).await;
    given_up.expect("the lease is extended for ever");
    client.batch_execute("ROLLBACK").await.unwrap();
    catalog.release_lease(EXPORTS_LEASE, another).await.unwrap();

    env.pass(2 * WINDOW).await;
    for run in env.until_ended(export_id, 2).await {
        assert_eq!(run.status, RunStatus::Completed, "{run:?}");
    }
    assert_eq!(env.exported(), [1, 2]);
}
