//! Semaphores of users, known as long as anybody has something of them or waits for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::Semaphore;

/// A semaphore for each user who needs one.
#[derive(Debug)]
pub(super) struct PerUser {
    /// Permits of each.
    permits: usize,
    /// By the users' ids.
    known: Mutex<HashMap<i64, Weak<Semaphore>>>,
}

impl PerUser {
    pub(super) fn new(permits: usize) -> Self {
        Self {
            permits,
            known: Mutex::default(),
        }
    }

    /// A user's; owned permits of it keep it known.
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

    /// How many users are known.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let known = self.known.lock();
        known.unwrap_or_else(PoisonError::into_inner).len()
    }
}
