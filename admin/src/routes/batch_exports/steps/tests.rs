//! Destinations with slow and failing steps.

use super::names::steps_of;
use super::run::run_steps;
use super::wire::{ResultBody, TestStatus};
use crate::operation::Bounds;
use crate::routes::batch_exports::bodies::TypeName;
use async_trait::async_trait;
use millrace_exports::ExportError;
use millrace_exports::destination::{Delivery, Destination, TestStep};
use millrace_exports::rows::RowForm;
use millrace_exports::window::RunScope;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Destination whose steps take their time, and of which one may fail or never end.
struct SlowDestination {
    /// Seconds that each step takes, but for the one at fault.
    seconds: u64,
    fault: Option<TestStep>,
    /// False if the step at fault never ends.
    ends: bool,
    made: Mutex<Vec<TestStep>>,
}

#[async_trait]
impl Destination for SlowDestination {
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
        match (self.fault == Some(step), self.ends) {
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
async fn slow_steps_fail_with_their_time_before_the_request_times_out() {
    for (seconds, passed, words) in [
        (1, 6, None),
        (10, 2, Some("all of them")),
        (19, 1, Some("all of them")),
        (60, 0, Some("more than 20s")),
    ] {
        let begun = Instant::now();
        let destination = SlowDestination {
            seconds,
            fault: None,
            ends: true,
            made: Mutex::default(),
        };
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

#[tokio::test(start_paused = true)]
async fn objects_of_a_test_are_deleted_after_a_failed_step() {
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
        let destination = SlowDestination {
            seconds,
            fault: Some(step),
            ends,
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
