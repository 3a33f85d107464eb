//! Tests of deliveries that end while a process stops, or after their run timed out, and of the
//! lease of a process that stops.

use super::test_env::{CLAIM, Process, TestEnv, WINDOW, new_export};
use async_trait::async_trait;
use bytes::Bytes;
use millrace_catalog::leases::EXPORTS_LEASE;
use millrace_catalog::testing::{DatabaseKind, TestDatabase, on_both};
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
use tokio_postgres::NoTls;
use uuid::Uuid;

on_both!(
    rows_published_while_the_process_stops_are_recorded_and_not_exported_again,
    rows_published_after_the_run_timed_out_are_recorded_and_not_exported_again,
    a_claim_is_extended_while_rows_are_published_and_the_process_stops,
);

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

/// Export whose run is being published by a process.
struct Publishing {
    export_id: Uuid,
    held: Held,
    process: Process,
}

async fn publishing(env: &TestEnv) -> Publishing {
    let new = new_export(DestinationType::NoOp, &json!({}));
    let export = env.make(new).await;
    env.store(env.project_id, &[(1, 0, 0)]).await;
    env.pass(WINDOW).await;
    let held = Held::default();
    let opened = held.clone();
    let process = env.start_into(Arc::new(move |_: &BatchExport| {
        Ok(Box::new(opened.clone()) as Box<dyn Destination>)
    }));
    held.begun.notified().await;
    Publishing {
        export_id: export.id,
        held,
        process,
    }
}

/// Publishes a run while its process was asked to stop.
async fn stopping(env: &TestEnv) -> Publishing {
    let publishing = publishing(env).await;
    publishing.process.stop();
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
    publishing
}

impl Publishing {
    /// Lets the publication end, and asserts that it is recorded by the time the process has
    /// stopped.
    async fn publish(self, env: &TestEnv) {
        self.held.go_on.notify_one();
        self.process.stopped().await;
        let runs = env.runs(self.export_id).await;
        assert_eq!(runs.len(), 1);
        assert_eq!(runs[0].status, RunStatus::Completed, "{runs:?}");
        assert_eq!(runs[0].records_completed, Some(1));
        assert_eq!(runs[0].latest_error, None);
        assert_eq!(self.held.published.load(Ordering::Relaxed), 1);
    }
}

async fn rows_published_while_the_process_stops_are_recorded_and_not_exported_again(
    database: TestDatabase,
) {
    let env = TestEnv::open(&database).await;
    stopping(&env).await.publish(&env).await;
}

async fn rows_published_after_the_run_timed_out_are_recorded_and_not_exported_again(
    database: TestDatabase,
) {
    let mut env = TestEnv::open(&database).await;
    // Longer than it takes to read a row on a busy machine.
    env.try_max = Duration::from_secs(5);
    let publishing = publishing(&env).await;
    let has_timed_out = |error: &String| error.contains("was not done");
    let running = env
        .until_run(publishing.export_id, |run| {
            run.latest_error.as_ref().is_some_and(has_timed_out)
        })
        .await;
    assert_eq!(running.status, RunStatus::Running, "{running:?}");
    publishing.process.stop();
    publishing.publish(&env).await;
}

async fn a_claim_is_extended_while_rows_are_published_and_the_process_stops(
    database: TestDatabase,
) {
    let env = TestEnv::open(&database).await;
    let stopping = stopping(&env).await;
    let lapses_at = async || env.runs(stopping.export_id).await[0].claim_lapses_at;
    let at_stop = lapses_at().await;
    // It is held for longer than one extension lasts.
    let later = at_stop + i64::try_from(CLAIM.as_micros()).unwrap();
    let extended = async {
        while lapses_at().await < later {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let extended = tokio::time::timeout(Duration::from_secs(120), extended).await;
    extended.expect("the claim is not extended");
    stopping.publish(&env).await;
}

/// Regression: the question was given up, and its answer made a lease of a process that was gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_was_asked_for_before_a_stop_is_given_back() {
    let database = TestDatabase::of(DatabaseKind::Postgres).await;
    let env = TestEnv::open(&database).await;
    let connected = tokio_postgres::connect(database.url(), NoTls).await;
    let (client, connection) = connected.unwrap();
    let _connection = tokio::spawn(connection);
    // The answer comes once this transaction has ended.
    let lock = "BEGIN; LOCK TABLE leases IN ACCESS EXCLUSIVE MODE";
    client.batch_execute(lock).await.unwrap();
    let process = env.start();
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted \
         AND relation = 'leases'::regclass \
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let asked = async {
        while client
            .query_one(waiting, &[])
            .await
            .unwrap()
            .get::<_, i64>(0)
            == 0
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let asked = tokio::time::timeout(Duration::from_secs(120), asked).await;
    asked.expect("the lease is not asked for");
    process.stop();
    client.batch_execute("ROLLBACK").await.unwrap();
    process.stopped().await;
    let another = env.catalog.hold_lease(EXPORTS_LEASE, Uuid::new_v4(), CLAIM);
    assert!(another.await.unwrap(), "a process that is gone holds it");
}
