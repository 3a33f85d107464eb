//! Semaphores of users, which exist as long as permits of them are held or waited for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::Semaphore;

/// Semaphores by user, created on first use.
#[derive(Debug)]
pub(super) struct PerUser {
    /// Permits of each semaphore.
    permits: usize,
    /// Semaphores by user id.
    known: Mutex<HashMap<i64, Weak<Semaphore>>>,
}

impl PerUser {
    pub(super) fn new(permits: usize) -> Self {
        Self {
            permits,
            known: Mutex::default(),
        }
    }

    /// Semaphore of a user; owned permits of it keep it alive.
    pub(super) fn of(&self, user_id: i64) -> Arc<Semaphore> {
        let known = self.known.lock();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        if let Some(one) = known.get(&user_id).and_then(Weak::upgrade) {
            return one;
        }
        known.retain(|_, one| one.strong_count() > 0);
        let one = Arc::new(Semaphore::new(self.permits));
        known.insert(user_id, Arc::downgrade(&one));
        one
    }

    /// Number of users that have a semaphore.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let known = self.known.lock();
        known.unwrap_or_else(PoisonError::into_inner).len()
    }
}
