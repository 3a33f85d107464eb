//! Locks of counts that several tasks share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex; a count is never left half-written, so a poisoned lock is ignored.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
