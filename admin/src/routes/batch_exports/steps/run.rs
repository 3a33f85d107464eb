//! Execution of the steps, within the request's own timeout.

use super::wire::{ResultBody, StepBody, TestStatus};
use crate::operation::Bounds;
use crate::routes::batch_exports::bodies::TypeName;
use millrace_exports::destination::{Destination, TestStep};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

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

/// Runs the steps in order until one fails. Once the write was begun, the deletion is made all the
/// same: a write that failed may have been carried out.
pub(super) async fn run_steps(destination: &dyn Destination, kind: TypeName) -> Vec<StepBody> {
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
