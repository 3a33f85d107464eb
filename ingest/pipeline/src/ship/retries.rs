//! Permits of inserts that fail again and again, beside those of a lane: an insert that cannot be
//! executed keeps its table and month waiting, and nothing else.

use super::plan::BatchId;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};

/// Failures from which on an insert counts as failing.
const FAILING_AFTER: u32 = 3;
/// Capacity of the channel that reports failing inserts to the lane.
const REPORTS_MAX: usize = 64;

/// Report of an insert that fails again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureReport {
    pub id: BatchId,
    /// True if nobody could be reached at the last try, which says nothing of the insert.
    pub is_unreachable: bool,
}

/// Permits that failing inserts share: a few are tried at a time, however many there are.
#[derive(Debug)]
pub struct Retries {
    permits: Semaphore,
    failing: mpsc::Sender<FailureReport>,
}

/// Failures of one insert.
#[derive(Debug, Default)]
pub struct Failures {
    count: u32,
    /// Last reported value of [`FailureReport::is_unreachable`]; `None` before the first report.
    reported: Option<bool>,
}

impl Failures {
    /// The failures of an insert that failed often enough before to count as failing.
    pub const fn of_failing() -> Self {
        Self {
            count: FAILING_AFTER,
            reported: None,
        }
    }
}

impl Retries {
    /// Creates so many permits, and the channel that reports failing inserts.
    pub fn new(permits: usize) -> (Self, mpsc::Receiver<FailureReport>) {
        let (failing, reports) = mpsc::channel(REPORTS_MAX);
        let permits = Semaphore::new(permits);
        (Self { permits, failing }, reports)
    }

    /// Waits for the permit that an insert with so many failures needs, if any.
    pub async fn permit(&self, failures: &Failures) -> Option<SemaphorePermit<'_>> {
        match failures.count {
            0..FAILING_AFTER => None,
            _ => self.permits.acquire().await.ok(),
        }
    }

    /// Counts a failure, and reports an insert to the lane once it counts as failing, and again
    /// whenever `is_unreachable` changes.
    pub async fn failed(&self, id: BatchId, failures: &mut Failures, is_unreachable: bool) {
        failures.count = failures.count.saturating_add(1);
        if failures.count >= FAILING_AFTER && failures.reported != Some(is_unreachable) {
            failures.reported = Some(is_unreachable);
            // A lane that has ended needs not know.
            let _ = self
                .failing
                .send(FailureReport { id, is_unreachable })
                .await;
        }
    }
}
