//! One change of a thing at a time.
//!
//! Each thing has a lock of its own, so nobody waits for changes of other things. What waits for
//! the network takes none.

use crate::error::ApiError;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// How long a change may wait for others of the same thing.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Below so many names nothing is swept.
const NAMES_MIN: usize = 64;

/// The locks of things that are being changed, by their names.
pub(crate) struct ChangeLocks {
    names: Mutex<Names>,
    timeout: Duration,
}

struct Names {
    locks: HashMap<String, Weak<AsyncMutex<()>>>,
    /// At how many names those that nobody holds are swept.
    sweep_at: usize,
}

impl ChangeLocks {
    pub(crate) fn new() -> Self {
        Self::with_timeout(LOCK_TIMEOUT)
    }

    fn with_timeout(timeout: Duration) -> Self {
        Self {
            timeout,
            names: Mutex::new(Names {
                locks: HashMap::new(),
                sweep_at: NAMES_MIN,
            }),
        }
    }

    /// Waits until nobody changes the thing; the change is over when the guard is dropped.
    ///
    /// # Errors
    ///
    /// 503 if that takes too long.
    pub(crate) async fn lock(&self, thing: String) -> Result<OwnedMutexGuard<()>, ApiError> {
        let locked = self.of(thing).lock_owned();
        let locked = tokio::time::timeout(self.timeout, locked).await;
        locked.map_err(|_| ApiError::unavailable())
    }

    fn of(&self, thing: String) -> Arc<AsyncMutex<()>> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.locks.len() >= names.sweep_at {
            names.locks.retain(|_, lock| lock.strong_count() > 0);
            names.sweep_at = NAMES_MIN.max(names.locks.len() * 2);
        }
        let had = names.locks.get(&thing).and_then(Weak::upgrade);
        had.unwrap_or_else(|| {
            let lock = Arc::new(AsyncMutex::new(()));
            names.locks.insert(thing, Arc::downgrade(&lock));
            lock
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_changes_of_one_thing_wait_for_each_other() {
        let locks = ChangeLocks::with_timeout(Duration::ZERO);
        let mut held = Vec::new();
        for number in 0..1_000 {
            held.push(locks.lock(format!("plugins {number}")).await.unwrap());
        }
        let late = locks.lock("plugins 7".to_owned()).await;
        assert_eq!(late.err(), Some(ApiError::unavailable()));
        held.clear();
        drop(locks.lock("plugins 7".to_owned()).await.unwrap());
    }

    #[tokio::test]
    async fn names_that_nobody_holds_are_forgotten() {
        let locks = ChangeLocks::new();
        for number in 0..10_000 {
            drop(locks.lock(format!("plugins {number}")).await.unwrap());
        }
        assert!(locks.names.lock().unwrap().locks.len() <= NAMES_MIN);
    }
}
