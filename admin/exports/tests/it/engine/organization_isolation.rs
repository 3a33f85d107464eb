//! Tests that slow exports of one organization do not delay another.

use super::test_env::{TestEnv, WINDOW, new_export};
use millrace_catalog::testing::{TestDatabase, on_both};
use millrace_catalog::{DestinationType, ProjectId, RunStatus};
use millrace_exports::{ExportPlace, NewBatchExport};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use uuid::Uuid;

on_both!(
    a_destination_that_never_answers_delays_no_other_organization,
    a_slow_query_delays_no_other_organization,
);

/// Server that accepts connections and never answers.
struct Silent {
    url: String,
    connections: watch::Receiver<u32>,
}

impl Silent {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, connections) = watch::channel(0);
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.push(stream);
                sender.send_modify(|count| *count += 1);
            }
        });
        Self { url, connections }
    }

    async fn until_called(&mut self) {
        let called = self.connections.wait_for(|count| *count > 0);
        called.await.unwrap();
    }
}

/// Creates three exports of the hostile organization, whose first windows are due.
async fn exports_of(env: &TestEnv, hostile: ExportPlace, new: NewBatchExport) -> Vec<Uuid> {
    let mut exports = Vec::new();
    for _ in 0..3 {
        exports.push(env.make_at(hostile, new.clone()).await.id);
    }
    exports
}

/// Backfills an export while a run of the hostile organization holds a slot.
async fn backfill_goes_on(env: &TestEnv, hostile: ExportPlace, exports: &[Uuid]) {
    let mut new = new_export(DestinationType::FileSystem, &json!({"path": "out"}));
    new.paused = true;
    let good = env.make(new).await;
    for _ in 0..2 {
        let backfill = env.backfill(good.id, None, None).await;
        let ended = env.backfill_ended(good.id, backfill).await;
        assert_eq!(ended, RunStatus::Completed);
    }
    assert_eq!(env.exported(), [1]);
    let under_way = env.under_way_at(hostile, exports).await;
    assert_eq!(under_way, 1, "it has its half of the slots, and no more");
}

async fn a_destination_that_never_answers_delays_no_other_organization(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let mut server = Silent::start().await;
    let hostile = env.organization("Hostile").await;
    let config = json!({
        "bucket_name": "bucket", "region": "r", "prefix": "p", "endpoint_url": server.url,
        "aws_access_key_id": "a", "aws_secret_access_key": "b",
    });
    let exports = exports_of(&env, hostile, new_export(DestinationType::S3, &config)).await;
    env.store(project_of(&env, hostile).await, &[(1, 0, 0)])
        .await;
    env.store(env.project_id, &[(1, -WINDOW, -WINDOW)]).await;
    env.pass(WINDOW).await;
    let _process = env.start();
    server.until_called().await;
    backfill_goes_on(&env, hostile, &exports).await;
}

async fn a_slow_query_delays_no_other_organization(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let hostile = env.organization("Hostile").await;
    let patterns = ["a[ab]{300}c", "b[ab]{300}c", "a[ab]{299}c"];
    let conditions = patterns.map(|pattern| format!("match(properties, '{pattern}')"));
    let query = format!("SELECT uuid FROM events WHERE {}", conditions.join(" OR "));
    let mut new = new_export(DestinationType::NoOp, &json!({}));
    new.hogql_query = Some(query);
    let exports = exports_of(&env, hostile, new).await;
    // Three patterns take some three seconds per event: no longer, as ClickHouse does not stop
    // within a pattern.
    env.store_large(project_of(&env, hostile).await, 12);
    env.store(env.project_id, &[(1, -WINDOW, -WINDOW)]).await;
    env.pass(WINDOW).await;
    let _process = env.start();
    env.until_under_way_at(hostile, &exports).await;
    backfill_goes_on(&env, hostile, &exports).await;
}

/// Project of an organization's exports.
async fn project_of(env: &TestEnv, place: ExportPlace) -> ProjectId {
    let mut new = new_export(DestinationType::NoOp, &json!({}));
    new.paused = true;
    ProjectId(env.make_at(place, new).await.team_id)
}
