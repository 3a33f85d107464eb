//! Panics of background tasks: their failure is reported.

use millrace_catalog::testing::{DatabaseKind, TestDatabase};
use millrace_catalog::{Catalog, NodeStarts};
use millrace_ingest::ImportQuota;
use millrace_ingest::watermark::Node;
use millrace_pipeline::{Ack, Pipeline, PipelineOptions, Running};
use millrace_rows::{Clock, Micros, SystemClock};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Time that is longer than it takes on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// Clock that panics in every task but the test's.
struct NotForTasks;

impl Clock for NotForTasks {
    fn now(&self) -> Micros {
        assert!(tokio::task::try_id().is_none(), "a bug");
        SystemClock.now()
    }
}

fn pipeline() -> (TempDir, Pipeline, Running) {
    let dir = TempDir::new().unwrap();
    let options = PipelineOptions {
        log_dir: dir.path().to_owned(),
        log_bytes_max: 64 << 20,
        segment_bytes: 1 << 20,
        queue_requests_max: 8,
        queue_bytes_max: 1 << 20,
        insert_bytes_max: PipelineOptions::INSERT_BYTES_MAX,
        ack: Ack::Disk,
    };
    let (pipeline, running) = Pipeline::start(&options).unwrap();
    (dir, pipeline, running)
}

#[tokio::test]
async fn a_panic_of_the_watermark_or_its_publisher_is_reported() {
    let table: [(Arc<dyn Clock>, Arc<dyn Clock>); 2] = [
        (Arc::new(NotForTasks), Arc::new(SystemClock)),
        // The publisher reads the catalog's clock.
        (Arc::new(SystemClock), Arc::new(NotForTasks)),
    ];
    for (clock, catalog_clock) in table {
        let database = TestDatabase::of(DatabaseKind::Sqlite).await;
        let catalog = Catalog::open_with_clock(database.url(), catalog_clock);
        let (_dir, pipeline, running) = pipeline();
        let node = Node::register(
            catalog.await.unwrap(),
            "a".to_owned(),
            "host".to_owned(),
            NodeStarts::default(),
        );
        let mut node = node.await.unwrap().run(pipeline, clock);
        let failed = tokio::time::timeout(SOON, node.failed()).await;
        let reason = failed.expect("it is told");
        assert!(reason.contains("stands still"), "{reason}");
        running.stop();
    }
}

#[tokio::test]
async fn a_panic_of_the_lease_renewer_is_reported() {
    let database = TestDatabase::of(DatabaseKind::Sqlite).await;
    let catalog = Catalog::open_with_clock(database.url(), Arc::new(NotForTasks));
    let (_import_quota, mut lease_renewer) = ImportQuota::start(
        catalog.await.unwrap(),
        "a".to_owned(),
        Arc::new(SystemClock),
    );
    let failed = tokio::time::timeout(SOON, lease_renewer.failed()).await;
    let reason = failed.expect("it is told");
    assert!(reason.contains("no longer counted"), "{reason}");
}
