//! A panic in the task that renews the lease.

use crate::test_env::options;
use millrace_catalog::Catalog;
use millrace_catalog::testing::{DatabaseKind, TestDatabase};
use millrace_clickhouse::{ClickHouse, Settings};
use millrace_persons::Worker;
use std::time::Duration;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Longer than the end takes on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// Subscriber that panics at every event from a module.
struct PanicsIn(&'static str);

impl Subscriber for PanicsIn {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == self.0
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        panic!("a bug");
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn the_worker_ends_when_the_lease_renewer_panics() {
    // While a process has one subscriber only, an event that another thread reaches first is turned
    // off for ever by that thread's having none (`callsite::dispatchers` of tracing-core 0.1).
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let _panics = tracing::subscriber::set_default(PanicsIn("millrace_persons::leader"));
    let database = TestDatabase::of(DatabaseKind::Sqlite).await;
    let catalog = Catalog::open(database.url());
    let nowhere = ClickHouse::new(&Settings::new("http://127.0.0.1:9", "nobody", ""));
    let worker = Worker::new(catalog.await.unwrap(), nowhere, options(10));
    let ended = tokio::time::timeout(SOON, worker.run(std::future::pending()));
    let error = ended.await.expect("it ends").unwrap_err();
    assert!(error.to_string().contains("lease"), "{error}");
}
