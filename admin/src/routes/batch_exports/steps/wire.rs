//! Bodies of a test of a destination.

use super::names::words;
use crate::routes::batch_exports::bodies::TypeName;
use crate::routes::batch_exports::changes::PatchDestination;
use millrace_catalog::Patch;
use millrace_exports::destination::TestStep;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Destination to test.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "BatchExportTestRequest")]
pub(super) struct TestBody {
    /// Type of the destination and its fields.
    #[serde(default)]
    pub(super) destination: Patch<PatchDestination>,
    /// Id of an export whose destination is tested, or would be changed. Fields that are not given
    /// have the export's values, secrets included.
    #[serde(default)]
    pub(super) batch_export: Patch<Uuid>,
}

/// Steps of a test.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportTest")]
pub(super) struct StepsBody {
    /// Steps in the order in which they run; none runs after one that failed.
    pub(super) steps: Vec<StepBody>,
}

/// One step of a test.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportTestStep")]
pub(super) struct StepBody {
    /// Name of the step.
    pub(super) name: &'static str,
    /// Explanation of the step, for people.
    pub(super) description: &'static str,
    /// Result of the step; null if it was not run.
    pub(super) result: Option<ResultBody>,
}

/// Result of a step.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportTestResult")]
pub(super) struct ResultBody {
    /// Outcome of the step.
    pub(super) status: TestStatus,
    /// Cause of the failure and how to fix it; null if the step passed.
    pub(super) message: Option<String>,
}

/// Status of a step.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportTestStatus")]
pub(super) enum TestStatus {
    Passed,
    Failed,
}

impl StepBody {
    /// Step that was not run.
    pub(super) fn of(step: TestStep, kind: TypeName) -> Self {
        let (name, description) = words(step, kind);
        Self {
            name,
            description,
            result: None,
        }
    }
}
