//! Semaphores of users or organizations, which exist as long as permits of them are held or waited
//! for.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::Semaphore;

/// Semaphores by the id of their owner, created on first use.
#[derive(Debug)]
pub(crate) struct KeyedSemaphores<K> {
    /// Permits of each semaphore.
    permits: usize,
    known: Mutex<HashMap<K, Weak<Semaphore>>>,
}

impl<K: Eq + Hash> KeyedSemaphores<K> {
    pub(crate) fn new(permits: usize) -> Self {
        Self {
            permits,
            known: Mutex::default(),
        }
    }

    /// Semaphore of an owner; owned permits of it keep it alive.
    pub(crate) fn of(&self, owner: K) -> Arc<Semaphore> {
        let known = self.known.lock();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        if let Some(one) = known.get(&owner).and_then(Weak::upgrade) {
            return one;
        }
        known.retain(|_, one| one.strong_count() > 0);
        let one = Arc::new(Semaphore::new(self.permits));
        known.insert(owner, Arc::downgrade(&one));
        one
    }

    /// Number of owners that have a semaphore.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let known = self.known.lock();
        known.unwrap_or_else(PoisonError::into_inner).len()
    }
}
