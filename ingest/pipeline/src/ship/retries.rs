//! Permits and turns of batches that fail. One that fails again and again has a permit beside those
//! of the lane: a batch that cannot be executed keeps its table and month waiting, and no other. Of
//! the failing batches of a table and month one is tried, until it is through; one that may be
//! failing alone goes behind the others after some tries. The others are parked from their first
//! failure on: they hold no permit, and count as failing.

use super::plan::BatchId;
use millrace_rows::Month;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, Semaphore, SemaphorePermit, mpsc};

/// Failures from which on a batch counts as failing.
const FAILING_AFTER: u32 = 3;
/// Capacity of the channel that reports failing batches to the lane.
const REPORTS_MAX: usize = 64;

/// Report of a batch that fails again and again, or is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureReport {
    pub id: BatchId,
    /// True if nobody could be reached at the last try, which says nothing of the batch.
    pub is_unreachable: bool,
    /// True if the batch is not tried before another one is through. Reports of that one hold for
    /// it, also those from before.
    pub is_parked: bool,
}

/// Turns of the failing batches by column list and month, while there are any.
type Turns = HashMap<(String, Month), Arc<AsyncMutex<()>>>;

/// Turn of a failing batch: others of its table and month wait until it is dropped.
pub type Turn = OwnedMutexGuard<()>;

/// Permits that failing batches share: a few are tried at a time, however many there are.
#[derive(Debug)]
pub struct Retries {
    permits: Semaphore,
    turns: Mutex<Turns>,
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
    /// True if nobody could be reached at the last try.
    is_unreachable: bool,
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
            is_unreachable: false,
            reported: None,
        }
    }

    /// Returns true once there were so many that the batch counts as failing.
    const fn are_many(&self) -> bool {
        self.count >= FAILING_AFTER
    }
}

impl Retries {
    /// Creates so many permits, and the channel that reports failing batches.
    pub fn new(permits: usize) -> (Self, mpsc::Receiver<FailureReport>) {
        let (failing, reports) = mpsc::channel(REPORTS_MAX);
        let retries = Self {
            permits: Semaphore::new(permits),
            turns: Mutex::default(),
            failing,
        };
        (retries, reports)
    }

    /// Waits for the turn of a batch that has failed, if it has. Turns are given in the order in
    /// which they are asked for. To be asked for before a permit: a batch that is parked holds
    /// none, neither of these nor, as it is reported, of the lane's.
    pub async fn turn(
        &self,
        id: BatchId,
        failures: &mut Failures,
        key: (&str, Month),
    ) -> Option<Turn> {
        if failures.count == 0 {
            return None;
        }
        let turns = self.turns_of(key);
        if let Ok(turn) = Arc::clone(&turns).try_lock_owned() {
            return Some(turn);
        }
        failures.count = failures.count.max(FAILING_AFTER);
        self.send(FailureReport {
            id,
            is_unreachable: failures.is_unreachable,
            is_parked: true,
        })
        .await;
        let turn = turns.lock_owned().await;
        // The reports of others counted for this batch, too.
        failures.reported = None;
        Some(turn)
    }

    fn turns_of(&self, (insert_target, month): (&str, Month)) -> Arc<AsyncMutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, of_key| Arc::strong_count(of_key) > 1);
        let of_key = turns.entry((insert_target.to_owned(), month));
        Arc::clone(of_key.or_default())
    }

    /// Waits for the permit that a batch with so many failures needs, if any.
    pub async fn permit(&self, failures: &Failures) -> Option<SemaphorePermit<'_>> {
        match failures.are_many() {
            false => None,
            true => self.permits.acquire().await.ok(),
        }
    }

    /// Counts a failure, and reports a batch to the lane once it counts as failing, and again
    /// whenever `is_unreachable` changes.
    pub async fn failed(&self, id: BatchId, failures: &mut Failures, is_unreachable: bool) {
        failures.count = failures.count.saturating_add(1);
        failures.is_unreachable = is_unreachable;
        if failures.are_many() {
            self.report(id, failures).await;
        }
    }

    /// Reports a failing batch, unless the last report says the same.
    async fn report(&self, id: BatchId, failures: &mut Failures) {
        let is_unreachable = failures.is_unreachable;
        if failures.reported.replace(is_unreachable) == Some(is_unreachable) {
            return;
        }
        self.send(FailureReport {
            id,
            is_unreachable,
            is_parked: false,
        })
        .await;
    }

    async fn send(&self, report: FailureReport) {
        // A lane that has ended needs not know.
        let _ = self.failing.send(report).await;
    }
}
