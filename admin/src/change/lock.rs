//! Locks that serialize changes of one resource.
//!
//! Each resource has a lock of its own, so changes of different resources do not wait for each
//! other. Operations that wait for the network take none.

use crate::error::ApiError;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// Longest wait of a change for others of the same resource.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of names below which unused locks are not removed.
const NAMES_MIN: usize = 64;

/// Locks of resources that are being changed, by name.
pub(crate) struct ChangeLocks {
    table: Mutex<LockTable>,
    timeout: Duration,
}

struct LockTable {
    locks: HashMap<String, Weak<AsyncMutex<()>>>,
    /// Number of names at which unused locks are removed.
    sweep_at: usize,
}

impl ChangeLocks {
    pub(crate) fn new() -> Self {
        Self::with_timeout(LOCK_TIMEOUT)
    }

    fn with_timeout(timeout: Duration) -> Self {
        Self {
            timeout,
            table: Mutex::new(LockTable {
                locks: HashMap::new(),
                sweep_at: NAMES_MIN,
            }),
        }
    }

    /// Waits for the lock of a resource; dropping the guard releases it.
    ///
    /// # Errors
    ///
    /// 503 if the wait takes longer than 10 seconds.
    pub(crate) async fn lock(&self, name: String) -> Result<OwnedMutexGuard<()>, ApiError> {
        let locked = self.of(name).lock_owned();
        let locked = tokio::time::timeout(self.timeout, locked).await;
        locked.map_err(|_| ApiError::unavailable())
    }

    fn of(&self, name: String) -> Arc<AsyncMutex<()>> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.locks.len() >= table.sweep_at {
            table.locks.retain(|_, lock| lock.strong_count() > 0);
            table.sweep_at = NAMES_MIN.max(table.locks.len() * 2);
        }
        let had = table.locks.get(&name).and_then(Weak::upgrade);
        had.unwrap_or_else(|| {
            let lock = Arc::new(AsyncMutex::new(()));
            table.locks.insert(name, Arc::downgrade(&lock));
            lock
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_changes_of_the_same_resource_wait_for_each_other() {
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
    async fn locks_that_nobody_holds_are_removed() {
        let locks = ChangeLocks::new();
        for number in 0..10_000 {
            drop(locks.lock(format!("plugins {number}")).await.unwrap());
        }
        assert!(locks.table.lock().unwrap().locks.len() <= NAMES_MIN);
    }
}
