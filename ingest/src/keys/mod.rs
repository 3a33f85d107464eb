//! Cache of project keys: which project a key belongs to, without waiting where that is possible.
//!
//! Answers from the catalog are kept: that a key is a project's for [`FOUND_MICROS`], that it is
//! nobody's for [`UNKNOWN_MICROS`]. Both are stale earlier if a key changed: if this process
//! changed it, before that is answered ([`Keys::catch_up`]); if another did, within
//! [`POLL_PERIOD`](changes::POLL_PERIOD) and one query ([`Keys::watch_changes`]). Staleness is a
//! generation number: an answer counts only while the generation in which its look-up *began*
//! lasts, so that no look-up which overlaps a change can bring the old answer back.
//!
//! While the catalog cannot be reached, or has more to do than it can, keys that were found before
//! go on working past their age, except those that were seen to be revoked, and those that a change
//! may concern which could not be looked at yet ([`changes::StaleKeys`]); all others get
//! [`CatalogUnavailable`].
//!
//! Memory is bounded whatever clients send. Found keys are real projects; keys of nobody have a
//! cache of their own, so that garbage cannot push projects out; look-ups under way are counted,
//! and keys that were found before have places of their own. Keys of our form with a wrong checksum
//! are refused without a look-up, except those that were brought in from elsewhere, whose list is
//! kept here.

mod changes;
mod first_events;
mod lookup;
mod memo;

use changes::StaleKeys;
use first_events::FirstEventQueue;
use lookup::PendingLookup;
use millrace_catalog::key::{PROJECT_KEY_BYTES_MAX, ProjectKeyForm};
use millrace_catalog::{Catalog, CatalogError};
use millrace_parse::{KeyLookup, Project};
use millrace_rows::TeamId;
use moka::sync::Cache;
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use uuid::Uuid;

/// Time for which a found key is used without asking again, in microseconds.
const FOUND_MICROS: u64 = 60_000_000;
/// Time for which an unknown key is refused without asking again, in microseconds.
const UNKNOWN_MICROS: u64 = 5_000_000;
/// Pause after the catalog failed, in microseconds.
const RETRY_MICROS: u64 = 2_000_000;
/// Time after which a query counts as failed.
const QUERY_TIMEOUT: Duration = Duration::from_secs(3);
/// Projects whose keys are cached; about 200 bytes each.
const FOUND_MAX: u64 = 1_000_000;
/// Unknown keys that are cached.
const UNKNOWN_MAX: u64 = 100_000;

/// Keys of all projects, as far as they are known here. Clones share everything.
#[derive(Clone)]
pub struct Keys(Arc<Shared>);

/// Error for a key that was not known before while the catalog does not answer: 503.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the catalog cannot be reached, and this key is not cached")]
pub struct CatalogUnavailable;

struct Shared {
    /// Id that tells this cache from others in the process, which share the threads' memory.
    id: u64,
    catalog: Catalog,
    found: Cache<Arc<str>, Found>,
    /// Organizations of the projects that were found. A project stays in its organization.
    organizations: Cache<TeamId, Uuid>,
    /// Unknown keys.
    unknown: Cache<Arc<str>, Validity>,
    /// Look-ups under way; further requests for the same key wait for the first.
    lookups: Mutex<HashMap<Arc<str>, PendingLookup>>,
    /// Projects that the catalog is to note as having events.
    first_events: Mutex<FirstEventQueue>,
    /// Generation, which goes up with every change of any key.
    generation: AtomicU64,
    /// Counter of changes in the catalog, up to which known keys were checked.
    seen_version: Mutex<Option<i64>>,
    /// Known keys that a change may have revoked.
    stale_keys: Mutex<StaleKeys>,
    /// Time on `ticks` until which the catalog is taken for unreachable.
    unreachable_until: AtomicU64,
    /// Imported keys with our form and another checksum; `None` while not known, or too many.
    imported: Mutex<Option<HashSet<String>>>,
    ticks: Ticks,
}

#[derive(Clone, Copy)]
struct Found {
    project: Project,
    validity: Validity,
}

/// Validity of a cached answer.
#[derive(Clone, Copy)]
struct Validity {
    /// Generation in which its look-up began.
    generation: u64,
    /// End of its validity, on `ticks`.
    until: u64,
}

impl Keys {
    /// Returns an empty cache of the keys in `catalog`. Spawn [`Keys::watch_changes`] beside it.
    #[must_use]
    pub fn new(catalog: Catalog) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        Self(Arc::new(Shared {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            catalog,
            found: Cache::new(FOUND_MAX),
            organizations: Cache::new(FOUND_MAX),
            unknown: Cache::new(UNKNOWN_MAX),
            lookups: Mutex::default(),
            first_events: Mutex::default(),
            generation: AtomicU64::new(0),
            seen_version: Mutex::default(),
            stale_keys: Mutex::default(),
            unreachable_until: AtomicU64::new(0),
            imported: Mutex::default(),
            ticks: Ticks::new(),
        }))
    }

    /// Looks a key up in the cache. Never waits: for [`KeyLookup::Missing`], await [`Keys::find`].
    /// A malformed key is [`KeyLookup::Unknown`].
    #[must_use]
    pub fn cached(&self, key: &str) -> KeyLookup {
        let shared = &*self.0;
        // Before it is hashed: a "key" may be as long as a request.
        if key.len() > PROJECT_KEY_BYTES_MAX {
            return KeyLookup::Unknown;
        }
        if let Some(found) = memo::recall(shared.id, key)
            && shared.is_valid(found.validity)
        {
            return KeyLookup::Found(found.project);
        }
        match shared.found.get(key) {
            Some(found) if shared.is_valid(found.validity) => {
                memo::remember(shared.id, key, found);
                KeyLookup::Found(found.project)
            }
            Some(found)
                if shared.is_unreachable() && shared.may_serve_stale(key, found.validity) =>
            {
                KeyLookup::Found(found.project)
            }
            Some(_) => KeyLookup::Missing,
            None => shared.cached_unknown(key),
        }
    }

    /// Finds the project that a key belongs to; `None` if nobody's. Asks the catalog if need be,
    /// once for all that want the same key at the same time. Any runtime may await it; dropping it
    /// does not cancel the look-up.
    ///
    /// # Errors
    ///
    /// [`CatalogUnavailable`] if the catalog does not answer and the key was not found before.
    pub async fn find(&self, key: &str) -> Result<Option<Project>, CatalogUnavailable> {
        match self.cached(key) {
            KeyLookup::Found(project) => return Ok(Some(project)),
            KeyLookup::Unknown => return Ok(None),
            KeyLookup::Missing if self.0.is_unreachable() => return Err(CatalogUnavailable),
            KeyLookup::Missing => {}
        }
        let oldest = self.0.generation.load(Ordering::Acquire);
        loop {
            let mut pending = match self.join_lookup(key) {
                Ok(pending) => pending,
                Err(unavailable) => return self.0.found_before(key).ok_or(unavailable).map(Some),
            };
            // Closed without an answer: the catalog's runtime is shutting down.
            let answer = pending.wait_for(Option::is_some).await;
            let answer = answer.map_or(None, |answer| *answer);
            match answer.unwrap_or(Err(CatalogUnavailable))? {
                // It began before a change that this caller may know of.
                found if found.generation < oldest => {}
                found => return Ok(found.project),
            }
        }
    }

    /// Organization of a project whose key was looked up; `None` if it is not cached any more. Not
    /// for the hot path.
    #[must_use]
    pub fn organization_of(&self, team_id: TeamId) -> Option<Uuid> {
        self.0.organizations.get(&team_id)
    }

    /// Reason why every event is refused: the catalog does not answer, and no key is known from
    /// before. `None` otherwise, as known keys go on working.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let failed = self.0.unreachable_until.load(Ordering::Acquire) != 0;
        let detail = "the catalog cannot be reached, and no key is known";
        (failed && self.0.found.iter().next().is_none()).then(|| detail.to_owned())
    }

    /// Makes every answer stale: each key is looked up again before it is used again. Returns the
    /// generation that begins.
    fn invalidate_all(&self) -> u64 {
        *lock(&self.0.imported) = None;
        // Held meanwhile, as generations are compared where the stale keys are narrowed.
        let mut stale_keys = lock(&self.0.stale_keys);
        *stale_keys = StaleKeys::All;
        self.0.generation.fetch_add(1, Ordering::AcqRel) + 1
    }
}

// === impl Shared ===

impl Shared {
    /// Looks up a key that was not found before.
    fn cached_unknown(&self, key: &str) -> KeyLookup {
        match ProjectKeyForm::of(key) {
            ProjectKeyForm::Malformed(_) => KeyLookup::Unknown,
            ProjectKeyForm::WrongChecksum if self.is_garbage(key) => KeyLookup::Unknown,
            _ => match self.unknown.get(key) {
                Some(validity) if self.is_valid(validity) => KeyLookup::Unknown,
                _ => KeyLookup::Missing,
            },
        }
    }

    /// Project of a key as it was last looked up, unless the key may have been revoked since.
    fn found_before(&self, key: &str) -> Option<Project> {
        let found = self.found.get(key)?;
        self.may_serve_stale(key, found.validity)
            .then_some(found.project)
    }

    fn is_valid(&self, validity: Validity) -> bool {
        validity.generation == self.generation.load(Ordering::Acquire)
            && self.ticks.now_micros() < validity.until
    }

    fn is_unreachable(&self) -> bool {
        let until = self.unreachable_until.load(Ordering::Acquire);
        until != 0 && self.ticks.now_micros() < until
    }

    /// Runs a query in bounded time, and notes whether the catalog answers.
    async fn ask<T>(
        &self,
        query: impl Future<Output = Result<T, CatalogError>>,
    ) -> Result<T, CatalogUnavailable> {
        let failure = match tokio::time::timeout(QUERY_TIMEOUT, query).await {
            Ok(Ok(answer)) => {
                if self.unreachable_until.swap(0, Ordering::AcqRel) != 0 {
                    tracing::info!("the catalog answers again");
                }
                return Ok(answer);
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {QUERY_TIMEOUT:?}"),
        };
        let until = self.ticks.now_micros() + RETRY_MICROS;
        if self.unreachable_until.swap(until, Ordering::AcqRel) == 0 {
            tracing::error!(error = failure, "the catalog fails; only cached keys work");
        }
        Err(CatalogUnavailable)
    }
}

/// Monotonic time in microseconds from 0. In tests it passes by hand only: how long they take on a
/// busy machine is no matter then.
struct Ticks {
    #[cfg(not(test))]
    start: std::time::Instant,
    #[cfg(test)]
    ahead_micros: AtomicU64,
}

impl Ticks {
    fn new() -> Self {
        Self {
            #[cfg(not(test))]
            start: std::time::Instant::now(),
            #[cfg(test)]
            ahead_micros: AtomicU64::new(0),
        }
    }

    fn now_micros(&self) -> u64 {
        #[cfg(not(test))]
        let elapsed = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        #[cfg(test)]
        let elapsed = self.ahead_micros.load(Ordering::Acquire);
        elapsed
    }
}

/// Locks a mutex; a panic elsewhere leaves nothing half-done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
