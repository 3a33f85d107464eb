//! Handshakes of a listener that are under way.
//!
//! There is a most of them. One more ends the oldest: a client that takes its time keeps nobody
//! out, and one that is quick is done before its turn to be ended comes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Handshakes under way, oldest first.
#[derive(Debug)]
pub(crate) struct PendingHandshakes {
    all: Mutex<VecDeque<Arc<Notify>>>,
    count_max: usize,
}

/// Place of one handshake; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct PendingHandshake<'a> {
    pending: &'a PendingHandshakes,
    displaced: Arc<Notify>,
}

// === impl PendingHandshakes ===

impl PendingHandshakes {
    pub(crate) const fn new(count_max: usize) -> Self {
        Self {
            all: Mutex::new(VecDeque::new()),
            count_max,
        }
    }

    /// Begins a handshake, if need be in the place of the oldest.
    pub(crate) fn begin(&self) -> PendingHandshake<'_> {
        let displaced = Arc::new(Notify::new());
        let mut all = self.all();
        if all.len() >= self.count_max
            && let Some(oldest) = all.pop_front()
        {
            // Kept for a task that does not wait at this moment.
            oldest.notify_one();
        }
        all.push_back(Arc::clone(&displaced));
        PendingHandshake {
            pending: self,
            displaced,
        }
    }

    fn all(&self) -> MutexGuard<'_, VecDeque<Arc<Notify>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl PendingHandshake ===

impl PendingHandshake<'_> {
    /// Waits until the place is another one's.
    pub(crate) async fn displaced(&self) {
        self.displaced.notified().await;
    }
}

impl Drop for PendingHandshake<'_> {
    fn drop(&mut self) {
        let mut all = self.pending.all();
        let place = all.iter().position(|it| Arc::ptr_eq(it, &self.displaced));
        if let Some(place) = place {
            all.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn one_too_many_ends_the_oldest_alone() {
        let pending = PendingHandshakes::new(2);
        let first = pending.begin();
        let second = pending.begin();
        assert!(timeout(SOON, first.displaced()).await.is_err());
        let third = pending.begin();
        first.displaced().await;
        assert!(timeout(SOON, second.displaced()).await.is_err());
        // A place that came back, by whatever end, is there for the next one.
        drop(first);
        drop(second);
        let fourth = pending.begin();
        for held in [third, fourth] {
            assert!(timeout(SOON, held.displaced()).await.is_err());
            drop(held);
        }
        assert!(pending.all().is_empty());
    }
}
