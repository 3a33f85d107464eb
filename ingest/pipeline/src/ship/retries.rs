//! Places for inserts that fail again and again, beside those of a lane: an insert that nobody can carry
//! out keeps its table and month waiting, and nothing else.

use super::plan::UnitId;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};

/// Failures from which on an insert is in trouble.
const TROUBLED_AFTER: u32 = 3;
/// Inserts that can be told of before the lane listens.
const TOLD_MAX: usize = 64;

/// What inserts in trouble share: a few are tried at a time, however many there are.
#[derive(Debug)]
pub struct Retries {
    places: Semaphore,
    troubled: mpsc::Sender<UnitId>,
}

/// Failures of one insert.
#[derive(Debug, Default)]
pub struct Failures(u32);

impl Failures {
    /// Those of an insert of which the lane knows that it is in trouble.
    pub const fn in_trouble() -> Self {
        Self(TROUBLED_AFTER)
    }
}

impl Retries {
    /// So many places, and where it is told who is in trouble.
    pub fn new(places: usize) -> (Self, mpsc::Receiver<UnitId>) {
        let (troubled, told) = mpsc::channel(TOLD_MAX);
        let places = Semaphore::new(places);
        (Self { places, troubled }, told)
    }

    /// Waits until an insert that failed so often may be tried.
    pub async fn place(&self, failures: &Failures) -> Option<SemaphorePermit<'_>> {
        match failures.0 {
            0..TROUBLED_AFTER => None,
            _ => self.places.acquire().await.ok(),
        }
    }

    /// Counts a failure, and tells the lane of trouble.
    pub async fn failed(&self, id: UnitId, failures: &mut Failures) {
        failures.0 = failures.0.saturating_add(1);
        if failures.0 == TROUBLED_AFTER {
            // A lane that has ended needs not know.
            let _ = self.troubled.send(id).await;
        }
    }
}
