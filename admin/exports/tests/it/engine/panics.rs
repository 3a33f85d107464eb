//! Tests of runs that panic, as a mistake of ours would have them.

use super::test_env::{TestEnv, WINDOW, new_export};
use async_trait::async_trait;
use bytes::Bytes;
use millrace_catalog::testing::{TestDatabase, on_both};
use millrace_catalog::{BatchExport, DestinationType, RunStatus};
use millrace_exports::ExportError;
use millrace_exports::destination::{Delivered, Delivery, Destination, TestStep};
use millrace_exports::engine::Notice;
use millrace_exports::rows::RowForm;
use millrace_exports::window::RunScope;
use serde_json::json;
use std::sync::Arc;

on_both!(a_run_that_panics_is_given_up_after_its_tries_and_others_are_made);

/// Steps of a run, each of which panics in the export of its name; the last one in none.
const STEPS: [&str; 5] = ["open", "begin", "write", "publish", "no step"];

/// Destination that panics at a step.
#[derive(Clone)]
struct Faulty {
    step: String,
    rows: u64,
}

impl Faulty {
    fn pass(&self, step: &str) {
        assert_ne!(self.step, step, "a bug");
    }
}

#[async_trait]
impl Destination for Faulty {
    fn form(&self) -> RowForm {
        RowForm::JsonLines
    }

    async fn begin(&self, _run: &RunScope, _parts: u32) -> Result<Box<dyn Delivery>, ExportError> {
        self.pass("begin");
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
impl Delivery for Faulty {
    async fn write(&mut self, _bytes: Bytes) -> Result<(), ExportError> {
        self.pass("write");
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
        self.pass("publish");
        Ok(Delivered {
            rows: Some(self.rows),
            ..Delivered::default()
        })
    }

    async fn abort(self: Box<Self>) {}
}

fn open(export: &BatchExport) -> Result<Box<dyn Destination>, ExportError> {
    let faulty = Faulty {
        step: export.name.clone(),
        rows: 0,
    };
    faulty.pass("open");
    Ok(Box::new(faulty))
}

async fn a_run_that_panics_is_given_up_after_its_tries_and_others_are_made(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    env.store(env.project_id, &[(1, 0, 0)]).await;
    let mut exports = Vec::new();
    for step in STEPS {
        let mut new = new_export(DestinationType::NoOp, &json!({}));
        step.clone_into(&mut new.name);
        exports.push((step, env.make(new).await.id));
    }
    env.pass(WINDOW).await;
    let _process = env.start_into(Arc::new(open));
    for (step, export_id) in exports {
        let runs = env.until_ended(export_id, 1).await;
        let [run] = runs.as_slice() else {
            panic!("{step}: {runs:?}");
        };
        if step == "no step" {
            assert_eq!(run.status, RunStatus::Completed, "{run:?}");
            continue;
        }
        let expected = (RunStatus::Failed, 5);
        assert_eq!(
            (run.status, run.failures_count),
            expected,
            "{step}: {run:?}"
        );
        let error = run.latest_error.as_deref().unwrap_or_default();
        assert!(error.contains("because of a bug"), "{step}: {error}");
    }
    let notices = env.until_notified().await;
    assert!(
        notices
            .iter()
            .all(|(notice, _)| *notice == Notice::RunFailed)
    );
}
