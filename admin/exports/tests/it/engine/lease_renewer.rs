//! A panic in the task that renews the lease.

use millrace_catalog::testing::{DatabaseKind, TestDatabase};
use millrace_catalog::{BatchExport, Catalog};
use millrace_clickhouse::{ClickHouse, Settings};
use millrace_exports::ExportError;
use millrace_exports::destination::Destination;
use millrace_exports::engine::{Engine, EngineOptions, Notice, Notices};
use std::sync::Arc;
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

fn nowhere_to(_: &BatchExport) -> Result<Box<dyn Destination>, ExportError> {
    unreachable!("there is no export")
}

struct Nobody;

#[async_trait::async_trait]
impl Notices for Nobody {
    async fn tell(&self, _: Notice, _: &BatchExport, _: &str) {}
}

#[tokio::test]
async fn the_engine_ends_when_the_lease_renewer_panics() {
    // While a process has one subscriber only, an event that another thread reaches first is turned
    // off for ever by that thread's having none (`callsite::dispatchers` of tracing-core 0.1).
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let _panics = tracing::subscriber::set_default(PanicsIn("millrace_exports::engine::leader"));
    let database = TestDatabase::of(DatabaseKind::Sqlite).await;
    let catalog = Catalog::open(database.url());
    let nowhere = Settings::new("http://127.0.0.1:9", "nobody", "");
    let engine = Engine::new(
        catalog.await.unwrap(),
        ClickHouse::new(&nowhere),
        Arc::new(nowhere_to),
        Arc::new(Nobody),
        EngineOptions::default(),
    );
    let ended = tokio::time::timeout(SOON, engine.run(std::future::pending()));
    let error = ended.await.expect("it ends").unwrap_err();
    assert!(error.to_string().contains("lease"), "{error}");
}
