//! Permits and locks of failing batches.
//!
//! A batch that fails repeatedly takes a permit of its own beside those of the lane, so that it
//! delays only its table and month. Of the failing batches of one table and month, one holds the
//! month's lock and is tried; after some tries it lets the next one try, unless the whole month is
//! affected. The others are parked from their first failure on: they hold no permit and count as
//! failing.

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

/// Locks of the failing batches by column list and month, while there are any.
type MonthLocks = HashMap<(String, Month), Arc<AsyncMutex<()>>>;

/// Lock that a failing batch holds: others of its table and month wait until it is dropped.
pub type MonthLock = OwnedMutexGuard<()>;

/// Permits that failing batches share: a few are tried at a time, however many there are.
#[derive(Debug)]
pub struct Retries {
    permits: Semaphore,
    month_locks: Mutex<MonthLocks>,
    failing: mpsc::Sender<FailureReport>,
}

/// Stage of the delivery of a batch that fails for its rows or for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryStage {
    /// First tries: nothing is known against the rows yet.
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
    /// Failures that a batch begins a stage with: from the second stage on it counts as failing.
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
            month_locks: Mutex::default(),
            failing,
        };
        (retries, reports)
    }

    /// Waits for the lock of a batch's table and month, if the batch has failed. Locks are given in
    /// the order in which they are asked for. Ask before a permit is taken: a batch that is
    /// parked holds none, neither of these nor, as it is reported, of the lane's.
    pub async fn lock_month(
        &self,
        id: BatchId,
        failures: &mut Failures,
        key: (&str, Month),
    ) -> Option<MonthLock> {
        if failures.count == 0 {
            return None;
        }
        let month_lock = self.month_lock_of(key);
        if let Ok(lock) = Arc::clone(&month_lock).try_lock_owned() {
            return Some(lock);
        }
        failures.count = failures.count.max(FAILING_AFTER);
        self.send(FailureReport {
            id,
            is_unreachable: failures.is_unreachable,
            is_parked: true,
        })
        .await;
        let lock = month_lock.lock_owned().await;
        // The reports of others counted for this batch, too.
        failures.reported = None;
        Some(lock)
    }

    fn month_lock_of(&self, (insert_target, month): (&str, Month)) -> Arc<AsyncMutex<()>> {
        let locks = self.month_locks.lock();
        let mut locks = locks.unwrap_or_else(PoisonError::into_inner);
        locks.retain(|_, of_key| Arc::strong_count(of_key) > 1);
        let of_key = locks.entry((insert_target.to_owned(), month));
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
