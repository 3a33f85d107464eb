//! Answers of the catalog about keys, how long they count, and what is still to be asked.

use millrace_parse::Project;
use millrace_rows::ProjectId;
use std::collections::{BTreeMap, HashSet};
#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Time for which a found key is used without asking again, in microseconds.
pub const FOUND_MICROS: u64 = 60_000_000;
/// Time for which an unknown key is refused without asking again, in microseconds.
pub const UNKNOWN_MICROS: u64 = 5_000_000;
/// Pause after the catalog failed, in microseconds.
pub const RETRY_MICROS: u64 = 2_000_000;
/// Time after which a query counts as failed.
pub const QUERY_TIMEOUT: Duration = Duration::from_secs(3);

/// Error for a key that was not known before while the catalog does not answer: 503.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the catalog cannot be reached, and this key is not cached")]
pub struct CatalogUnavailable;

/// Project of a key that was found.
#[derive(Clone, Copy)]
pub struct FoundKey {
    pub project: Project,
    pub validity: Validity,
}

/// Validity of a cached answer.
#[derive(Clone, Copy)]
pub struct Validity {
    /// Generation in which its look-up began.
    pub generation: u64,
    /// End of its validity, on `ticks`.
    pub until: u64,
}

/// Result that all waiting requests get.
pub type LookupResult = Result<LookedUpKey, CatalogUnavailable>;
/// Receiver of a look-up under way.
pub type PendingLookup = watch::Receiver<Option<LookupResult>>;

/// Project that a look-up found, if any.
#[derive(Clone, Copy)]
pub struct LookedUpKey {
    pub project: Option<Project>,
    /// Generation in which the look-up began.
    pub generation: u64,
}

/// Known keys that do not count past their age: something was changed, and the catalog has not said
/// yet that these were not revoked.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum StaleKeys {
    /// No key.
    #[default]
    None,
    /// Keys that were not asked about before the catalog failed.
    Some(HashSet<Arc<str>>),
    /// Every key.
    All,
}

/// Projects that are to be noted.
#[derive(Default)]
pub struct FirstEventQueue {
    /// Projects, each with the key that its events came with.
    pub waiting: BTreeMap<ProjectId, Arc<str>>,
    /// True while a task notes them.
    pub is_running: bool,
    /// Time until which the catalog is left alone after it failed, on the cache's ticks.
    pub paused_until: u64,
}

/// Monotonic time in microseconds from 0. In tests it passes by hand only: how long they take on a
/// busy machine is no matter then.
pub struct Ticks {
    #[cfg(not(test))]
    start: std::time::Instant,
    #[cfg(test)]
    pub ahead_micros: AtomicU64,
}

impl Ticks {
    pub fn new() -> Self {
        Self {
            #[cfg(not(test))]
            start: std::time::Instant::now(),
            #[cfg(test)]
            ahead_micros: AtomicU64::new(0),
        }
    }

    pub fn now_micros(&self) -> u64 {
        #[cfg(not(test))]
        let elapsed = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        #[cfg(test)]
        let elapsed = self.ahead_micros.load(Ordering::Acquire);
        elapsed
    }
}

/// Locks a mutex; a panic elsewhere leaves nothing half-done here.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
