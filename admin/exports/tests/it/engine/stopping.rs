//! Tests of deliveries that end while a process stops.

use super::test_env::{TestEnv, WINDOW, new_export};
use async_trait::async_trait;
use bytes::Bytes;
use millrace_catalog::leases::EXPORTS_LEASE;
use millrace_catalog::testing::{TestDatabase, on_both};
use millrace_catalog::{BatchExport, DestinationType, RunStatus};
use millrace_exports::ExportError;
use millrace_exports::destination::{Delivered, Delivery, Destination, TestStep};
use millrace_exports::rows::RowForm;
use millrace_exports::window::RunScope;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use uuid::Uuid;

on_both!(rows_published_while_the_process_stops_are_recorded_and_not_exported_again,);

/// Destination that publishes rows once it is released.
#[derive(Clone, Default)]
struct Held {
    rows: u64,
    begun: Arc<Notify>,
    go_on: Arc<Notify>,
    published: Arc<AtomicU32>,
}

#[async_trait]
impl Destination for Held {
    fn form(&self) -> RowForm {
        RowForm::JsonLines
    }

    async fn begin(&self, _run: &RunScope, _parts: u32) -> Result<Box<dyn Delivery>, ExportError> {
        Ok(Box::new(self.clone()))
    }

    fn test_steps(&self) -> &'static [TestStep] {
        &[]
    }

    async fn test(&self, _step: TestStep) -> Result<(), ExportError> {
        Ok(())
    }
}

#[async_trait]
impl Delivery for Held {
    async fn write(&mut self, _bytes: Bytes) -> Result<(), ExportError> {
        Ok(())
    }

    async fn end_part(&mut self, rows: u64) -> Result<(), ExportError> {
        self.rows += rows;
        Ok(())
    }

    fn bytes(&self) -> u64 {
        0
    }

    async fn publish(self: Box<Self>) -> Result<Delivered, ExportError> {
        self.begun.notify_one();
        self.go_on.notified().await;
        self.published.fetch_add(1, Ordering::Relaxed);
        Ok(Delivered {
            rows: Some(self.rows),
            ..Delivered::default()
        })
    }

    async fn abort(self: Box<Self>) {}
}

async fn rows_published_while_the_process_stops_are_recorded_and_not_exported_again(
    database: TestDatabase,
) {
    let env = TestEnv::open(&database).await;
    let new = new_export(DestinationType::NoOp, &json!({}));
    let export = env.make(new).await;
    env.store(env.team_id, &[(1, 0, 0)]).await;
    env.pass(WINDOW).await;
    let held = Held::default();
    let opened = held.clone();
    let process = env.start_into(Arc::new(move |_: &BatchExport| {
        Ok(Box::new(opened.clone()) as Box<dyn Destination>)
    }));
    held.begun.notified().await;
    process.stop();
    // Its runs are stopped before it releases the lease.
    let (holder, time) = (Uuid::new_v4(), Duration::from_secs(60));
    while !env
        .catalog
        .hold_lease(EXPORTS_LEASE, holder, time)
        .await
        .unwrap()
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    held.go_on.notify_one();
    process.stopped().await;
    let runs = env.runs(export.id).await;
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].status, RunStatus::Completed, "{runs:?}");
    assert_eq!(runs[0].records_completed, Some(1));
    assert_eq!(held.published.load(Ordering::Relaxed), 1);
}
