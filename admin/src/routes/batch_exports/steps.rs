//! Operations that list and run the steps of a destination's test.

use super::bodies::TypeName;
use super::changes::PatchDestination;
use super::paths::{FEATURE, Paths, READ, WRITE, place, writer};
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Bounds, Operation};
use crate::patch::Patch;
use millrace_catalog::ExportModel;
use millrace_exports::destination::{Destination, DestinationConfig, Destinations, TestStep};
use millrace_exports::{CheckedDestination, DestinationChange};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

/// Timeout of one step.
const STEP_TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout of all steps together.
const STEPS_TIMEOUT: Duration = Duration::from_secs(24);
/// Further time for the deletion of what the test wrote.
const DELETE_TIMEOUT: Duration = Duration::from_secs(3);
/// Time for the rest of the request, before and after the steps.
const REST: Duration = Duration::from_secs(3);

// The response names the slow step, so the steps must end before the request's own timeout.
const _: () = assert!(
    STEPS_TIMEOUT
        .saturating_add(DELETE_TIMEOUT)
        .saturating_add(REST)
        .as_millis()
        <= Bounds::timeout_of_none().as_millis()
);

pub(super) fn rows(paths: &Paths) -> Vec<Operation> {
    vec![
        Operation::get(paths.test, steps)
            .about("List the steps of a test of a destination")
            .query("destination", "string", "Type of the destination.")
            .scopes(&READ)
            .fails(400, "required", "The type is missing.")
            .fails(400, "invalid_choice", "The type is unknown."),
        Operation::action(paths.test, test)
            .about("Test a destination")
            .note(
                "The steps run in order until one fails; those after it have no result, but what \
                             was written is deleted all the same. Nothing is stored.",
            )
            .scopes(&WRITE)
            .feature(FEATURE)
            .pipelines_level()
            .fails(
                400,
                "invalid_input",
                "A field of the destination is invalid.",
            ),
    ]
}

/// Destination to test.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "BatchExportTestRequest")]
struct TestBody {
    /// Type of the destination and its fields.
    #[serde(default)]
    destination: Patch<PatchDestination>,
    /// Id of an export whose destination is tested, or would be changed. Fields that are not given
    /// have the export's values, secrets included.
    #[serde(default)]
    batch_export: Patch<Uuid>,
}

/// Steps of a test.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportTest")]
struct StepsBody {
    steps: Vec<StepBody>,
}

/// One step of a test.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportTestStep")]
struct StepBody {
    name: &'static str,
    description: &'static str,
    /// Result of the step; null if it was not run.
    result: Option<ResultBody>,
}

/// Result of a step.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportTestResult")]
struct ResultBody {
    status: TestStatus,
    /// Cause of the failure and how to fix it; null if the step passed.
    message: Option<String>,
}

/// Status of a step.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportTestStatus")]
enum TestStatus {
    Passed,
    Failed,
}

async fn steps(context: Context) -> Result<StepsBody, ApiError> {
    let refused = |code, detail| ApiError::invalid(code, Some("destination"), detail);
    let name = context
        .query("destination")
        .ok_or_else(|| refused("required", "Give the type of the destination."))?;
    let kind: TypeName = serde_json::from_value(Value::String(name))
        .map_err(|_| refused("invalid_choice", "There is no such type of destination."))?;
    let steps = steps_of(kind).iter().map(|step| StepBody::of(*step, kind));
    Ok(StepsBody {
        steps: steps.collect(),
    })
}

async fn test(context: Context, body: TestBody) -> Result<StepsBody, ApiError> {
    let actor = context.actor()?;
    let writer = writer(&context, &actor)?;
    let before = match body.batch_export.sent() {
        Some(id) => {
            let view = context.batch_exports().get(place(&context)?, id).await?;
            Some(view.ok_or_else(ApiError::not_found)?.export)
        }
        None => None,
    };
    let change = body.destination.sent().map(DestinationChange::from);
    let change = change.unwrap_or_default();
    let checked = CheckedDestination::of(before.as_ref(), &change, writer.key, &writer.limits)?;
    let CheckedDestination {
        kind,
        config,
        secrets,
        files_at_root,
    } = checked;
    let services = &context.services;
    let destinations = Destinations::new(
        services.secret_key.clone(),
        services.config.allow_private_destinations,
        services.config.export_root.clone(),
    );
    let destinations = destinations.map_err(|error| {
        tracing::error!(%error, "destinations cannot be tested");
        ApiError::internal()
    })?;
    let organization_id = context.organization_id()?;
    let model = before.as_ref().map(|export| export.model);
    let opened = destinations.open_config(DestinationConfig {
        kind,
        model: model.unwrap_or(ExportModel::Events),
        config: &config,
        secrets: &secrets,
        files_of: (!files_at_root).then_some(organization_id),
    });
    let destination = opened.map_err(|error| {
        ApiError::invalid("invalid_input", Some("destination"), error.to_string())
    })?;
    let steps = run_steps(destination.as_ref(), kind.into()).await;
    Ok(StepsBody { steps })
}

/// Runs the steps in order until one fails. Once the write was begun, the deletion is made all the
/// same: a write that failed may have been carried out.
async fn run_steps(destination: &dyn Destination, kind: TypeName) -> Vec<StepBody> {
    let begun = Instant::now();
    let mut steps = Vec::new();
    let (mut fails, mut may_have_written) = (false, false);
    for step in destination.test_steps() {
        let mut body = StepBody::of(*step, kind);
        let is_cleanup = may_have_written && *step == TestStep::Delete;
        if !fails || is_cleanup {
            may_have_written |= *step == TestStep::Write;
            let mut limit = STEPS_TIMEOUT;
            if is_cleanup {
                limit += DELETE_TIMEOUT;
            }
            let result = ResultBody::of(destination, *step, begun, limit).await;
            fails |= matches!(result.status, TestStatus::Failed);
            body.result = Some(result);
        }
        steps.push(body);
    }
    steps
}

impl StepBody {
    fn of(step: TestStep, kind: TypeName) -> Self {
        let (name, description) = words(step, kind);
        Self {
            name,
            description,
            result: None,
        }
    }
}

impl ResultBody {
    /// Runs a step, at most until all steps have taken this long.
    async fn of(
        destination: &dyn Destination,
        step: TestStep,
        begun: Instant,
        limit: Duration,
    ) -> Self {
        let deadline = begun + limit;
        let end = Ord::min(Instant::now() + STEP_TIMEOUT, deadline);
        let message = match timeout_at(end, destination.test(step)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) if end == deadline => Some(format!(
                "It was not done {limit:?} after the first step was begun, which is what all of them may take."
            )),
            Err(_) => Some(format!("It took more than {STEP_TIMEOUT:?}.")),
        };
        let status = match message {
            None => TestStatus::Passed,
            Some(_) => TestStatus::Failed,
        };
        Self { status, message }
    }
}

fn steps_of(kind: TypeName) -> &'static [TestStep] {
    use TestStep::{Authenticate, Delete, Find, Reach, Read, Write};
    match kind {
        TypeName::S3 | TypeName::AzureBlob | TypeName::Gcs => {
            &[Reach, Authenticate, Write, Read, Delete]
        }
        TypeName::FileSystem => &[Write, Read, Delete],
        TypeName::Postgres
        | TypeName::Redshift
        | TypeName::Snowflake
        | TypeName::BigQuery
        | TypeName::Databricks => &[Reach, Authenticate, Find, Write, Read, Delete],
        TypeName::Http => &[Reach, Authenticate],
        TypeName::NoOp => &[],
    }
}

/// Name and description of a step.
fn words(step: TestStep, kind: TypeName) -> (&'static str, &'static str) {
    let is_table = matches!(
        kind,
        TypeName::Postgres
            | TypeName::Redshift
            | TypeName::Snowflake
            | TypeName::BigQuery
            | TypeName::Databricks
    );
    match step {
        TestStep::Reach => (
            "Reach",
            "Connect to the server that the configuration names.",
        ),
        TestStep::Authenticate => ("Authenticate", "Present the credentials to it."),
        TestStep::Find => ("Find", "Find the database and the schema."),
        TestStep::Write if kind == TypeName::BigQuery => {
            ("Write", "Load a row into a table beside the export's.")
        }
        TestStep::Write if is_table => ("Write", "Create a table there and insert a row."),
        TestStep::Write => ("Write", "Write a small file where the export will write."),
        TestStep::Read => ("Read", "Read it back."),
        TestStep::Delete if is_table => ("Delete", "Drop that table."),
        TestStep::Delete => ("Delete", "Delete that file."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use millrace_exports::ExportError;
    use millrace_exports::destination::Delivery;
    use millrace_exports::rows::RowForm;
    use millrace_exports::window::RunScope;
    use std::sync::Mutex;

    /// Destination whose steps each take this long.
    struct Slow(Duration);

    #[async_trait]
    impl Destination for Slow {
        fn form(&self) -> RowForm {
            RowForm::JsonLines
        }

        async fn begin(&self, _: &RunScope, _: u32) -> Result<Box<dyn Delivery>, ExportError> {
            Err(ExportError::retryable("Nothing is delivered."))
        }

        fn test_steps(&self) -> &'static [TestStep] {
            steps_of(TypeName::Postgres)
        }

        async fn test(&self, _step: TestStep) -> Result<(), ExportError> {
            tokio::time::sleep(self.0).await;
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_steps_fail_with_their_time_before_the_request_times_out() {
        for (seconds, passed, words) in [
            (1, 6, None),
            (10, 2, Some("all of them")),
            (19, 1, Some("all of them")),
            (60, 0, Some("more than 20s")),
        ] {
            let begun = Instant::now();
            let destination = Slow(Duration::from_secs(seconds));
            let steps = run_steps(&destination, TypeName::Postgres).await;
            assert!(begun.elapsed() < Bounds::timeout_of_none(), "{seconds}");
            assert_eq!(steps.len(), 6);
            let results: Vec<_> = steps
                .iter()
                .map_while(|step| step.result.as_ref())
                .collect();
            let is_passed = |result: &&&ResultBody| matches!(result.status, TestStatus::Passed);
            assert_eq!(
                results.iter().filter(is_passed).count(),
                passed,
                "{seconds}"
            );
            let failed = results
                .get(passed)
                .and_then(|result| result.message.as_deref());
            assert_eq!(failed.is_some(), words.is_some(), "{seconds}: {failed:?}");
            assert!(
                failed
                    .unwrap_or_default()
                    .contains(words.unwrap_or_default()),
                "{failed:?}"
            );
        }
    }

    /// Destination of which one step fails, or never ends.
    struct Failing {
        step: TestStep,
        ends: bool,
        /// Seconds that each other step takes.
        seconds: u64,
        made: Mutex<Vec<TestStep>>,
    }

    #[async_trait]
    impl Destination for Failing {
        fn form(&self) -> RowForm {
            RowForm::JsonLines
        }

        async fn begin(&self, _: &RunScope, _: u32) -> Result<Box<dyn Delivery>, ExportError> {
            Err(ExportError::retryable("Nothing is delivered."))
        }

        fn test_steps(&self) -> &'static [TestStep] {
            steps_of(TypeName::Postgres)
        }

        async fn test(&self, step: TestStep) -> Result<(), ExportError> {
            self.made.lock().unwrap().push(step);
            match (step == self.step, self.ends) {
                (true, true) => Err(ExportError::permanent("No.")),
                (true, false) => std::future::pending().await,
                (false, _) => {
                    tokio::time::sleep(Duration::from_secs(self.seconds)).await;
                    Ok(())
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_test_wrote_is_deleted_though_a_step_fails() {
        use TestStep::{Authenticate, Delete, Find, Reach, Read, Write};
        let until_find = &[Reach, Authenticate, Find][..];
        let without_read = &[Reach, Authenticate, Find, Write, Delete][..];
        let all = &[Reach, Authenticate, Find, Write, Read, Delete][..];
        for (step, ends, seconds, expected) in [
            (Find, true, 1, until_find),
            (Find, false, 1, until_find),
            (Write, true, 1, without_read),
            (Write, false, 1, without_read),
            (Read, true, 1, all),
            // The time of all steps is over when it is deleted.
            (Read, false, 2, all),
            (Delete, true, 1, all),
        ] {
            let name = format!("{step:?} that ends: {ends}");
            let destination = Failing {
                step,
                ends,
                seconds,
                made: Mutex::default(),
            };
            let begun = Instant::now();
            let steps = run_steps(&destination, TypeName::Postgres).await;
            assert!(begun.elapsed() < Bounds::timeout_of_none(), "{name}");
            let made = destination.made.lock().unwrap().clone();
            assert_eq!(made, expected, "{name}");
            let has_result = steps.iter().filter(|step| step.result.is_some());
            assert_eq!(has_result.count(), expected.len(), "{name}");
            let deleted = steps.last().unwrap().result.as_ref();
            let is_passed = deleted.is_some_and(|it| matches!(it.status, TestStatus::Passed));
            let is_expected = expected.last() == Some(&Delete) && step != Delete;
            assert_eq!(is_passed, is_expected, "{name}: {deleted:?}");
        }
    }
}
