//! Permits of batches that fail again and again, beside those of a lane: a batch that cannot be
//! executed keeps its table and month waiting, and nothing else.

use super::plan::BatchId;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};

/// Failures from which on a batch counts as failing.
const FAILING_AFTER: u32 = 3;
/// Capacity of the channel that reports failing batches to the lane.
const REPORTS_MAX: usize = 64;

/// Report of a batch that fails again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureReport {
    pub id: BatchId,
    /// True if nobody could be reached at the last try, which says nothing of the batch.
    pub is_unreachable: bool,
}

/// Permits that failing batches share: a few are tried at a time, however many there are.
#[derive(Debug)]
pub struct Retries {
    permits: Semaphore,
    failing: mpsc::Sender<FailureReport>,
}

/// Stage of the delivery of a batch that fails for its rows or for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryStage {
    /// Nothing is known against the rows yet.
    First,
    /// The batch was kept whole, as its table has many parts: after some more failures it is
    /// returned again.
    KeptWhole,
    /// The batch cannot be halved: it is refused only with proof.
    LastPart,
}

/// Failures of one batch.
#[derive(Debug)]
pub struct Failures {
    count: u32,
    /// Last reported value of [`FailureReport::is_unreachable`]; `None` before the first report.
    reported: Option<bool>,
}

impl Failures {
    /// The failures of a batch before a stage: after the first it counts as failing.
    pub const fn before(stage: DeliveryStage) -> Self {
        let count = match stage {
            DeliveryStage::First => 0,
            DeliveryStage::KeptWhole | DeliveryStage::LastPart => FAILING_AFTER,
        };
        Self {
            count,
            reported: None,
        }
    }
}

impl Retries {
    /// Creates so many permits, and the channel that reports failing batches.
    pub fn new(permits: usize) -> (Self, mpsc::Receiver<FailureReport>) {
        let (failing, reports) = mpsc::channel(REPORTS_MAX);
        let permits = Semaphore::new(permits);
        (Self { permits, failing }, reports)
    }

    /// Waits for the permit that a batch with so many failures needs, if any.
    pub async fn permit(&self, failures: &Failures) -> Option<SemaphorePermit<'_>> {
        match failures.count {
            0..FAILING_AFTER => None,
            _ => self.permits.acquire().await.ok(),
        }
    }

    /// Counts a failure, and reports a batch to the lane once it counts as failing, and again
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
