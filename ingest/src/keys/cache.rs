//! Cache of keys: what is known without asking, and when that counts.

use super::answers::{
    CatalogUnavailable, FirstEventQueue, FoundKey, PendingLookup, QUERY_TIMEOUT, RETRY_MICROS,
    StaleKeys, Ticks, Validity, lock,
};
use super::memo;
use millrace_catalog::key::{PROJECT_KEY_BYTES_MAX, ProjectKeyForm};
use millrace_catalog::{Catalog, CatalogError, ListedKey};
use millrace_parse::{KeyLookup, Project};
use millrace_rows::ProjectId;
use moka::sync::Cache;
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use uuid::Uuid;

/// Projects whose keys are cached; about 200 bytes each.
const FOUND_MAX: u64 = 1_000_000;
/// Unknown keys that are cached.
pub(super) const UNKNOWN_MAX: u64 = 100_000;

/// Keys of all projects, as far as they are known here. Clones share everything.
#[derive(Clone)]
pub struct Keys(pub(super) Arc<KeyCache>);

/// State of the cache.
pub struct KeyCache {
    /// Id that tells this cache from others in the process, which share the threads' memory.
    pub(super) id: u64,
    pub(super) catalog: Catalog,
    pub(super) found: Cache<Arc<str>, FoundKey>,
    /// Organizations of the projects that were found. A project stays in its organization.
    pub(super) organizations: Cache<ProjectId, Uuid>,
    /// Unknown keys.
    pub(super) unknown: Cache<Arc<str>, Validity>,
    /// Look-ups under way; further requests for the same key wait for the first.
    pub(super) lookups: Mutex<HashMap<Arc<str>, PendingLookup>>,
    /// Projects that the catalog is to note as having events.
    pub(super) first_events: Mutex<FirstEventQueue>,
    /// Generation, which goes up with every change of any key.
    pub(super) generation: AtomicU64,
    /// Counter of changes in the catalog, up to which known keys were checked.
    pub(super) seen_version: Mutex<Option<i64>>,
    /// Known keys that a change may have revoked.
    pub(super) stale_keys: Mutex<StaleKeys>,
    /// Time on `ticks` until which the catalog is taken for unreachable.
    pub(super) unreachable_until: AtomicU64,
    /// Imported keys with our form and another checksum; `None` while not known, or too many.
    pub(super) imported: Mutex<Option<HashSet<String>>>,
    pub(super) ticks: Ticks,
}

impl Keys {
    /// Returns an empty cache of the keys in `catalog`. Spawn [`Keys::watch_changes`] beside it.
    #[must_use]
    pub fn new(catalog: Catalog) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        Self(Arc::new(KeyCache {
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

    /// Adds keys that the catalog had when it last answered, for a start while it is away: they
    /// count as keys that were found before. Nothing else may have been looked up yet.
    pub fn preload(&self, keys: impl IntoIterator<Item = ListedKey>) {
        let shared = &*self.0;
        let generation = shared.generation.load(Ordering::Acquire);
        // Past its age at once, so that it is asked for as soon as the catalog answers.
        let validity = Validity {
            generation,
            until: 0,
        };
        for ListedKey { key, project } in keys {
            let organizations = &shared.organizations;
            organizations.insert(project.project_id, project.organization_id);
            let project = Project {
                id: project.project_id,
                anonymize_ips: project.anonymize_ips,
                ingested_event: project.ingested_event,
            };
            shared
                .found
                .insert(key.into(), FoundKey { project, validity });
        }
        let until = shared.ticks.now_micros() + RETRY_MICROS;
        shared.unreachable_until.store(until, Ordering::Release);
    }

    /// Counter of changes in the catalog up to which known keys were checked, while the catalog
    /// answers.
    #[must_use]
    pub fn checked_version(&self) -> Option<i64> {
        let is_away = self.0.unreachable_until.load(Ordering::Acquire) != 0;
        lock(&self.0.seen_version).filter(|_| !is_away)
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
                memo::insert(shared.id, key, found);
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

    /// Organization of a project whose key was looked up; `None` if it is not cached any more. Not
    /// for the hot path.
    #[must_use]
    pub fn organization_of(&self, project_id: ProjectId) -> Option<Uuid> {
        self.0.organizations.get(&project_id)
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
    pub(super) fn invalidate_all(&self) -> u64 {
        *lock(&self.0.imported) = None;
        // Held meanwhile, as generations are compared where the stale keys are narrowed.
        let mut stale_keys = lock(&self.0.stale_keys);
        *stale_keys = StaleKeys::All;
        self.0.generation.fetch_add(1, Ordering::AcqRel) + 1
    }
}

// === impl KeyCache ===

impl KeyCache {
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
    pub(super) fn found_before(&self, key: &str) -> Option<Project> {
        let found = self.found.get(key)?;
        self.may_serve_stale(key, found.validity)
            .then_some(found.project)
    }

    /// Returns true if a known key may be served past its age, as the catalog does not answer.
    fn may_serve_stale(&self, key: &str, validity: Validity) -> bool {
        // Looked up since the last change.
        validity.generation == self.generation.load(Ordering::Acquire)
            || match &*lock(&self.stale_keys) {
                StaleKeys::None => true,
                StaleKeys::Some(keys) => !keys.contains(key),
                StaleKeys::All => false,
            }
    }

    /// Returns true if a key with a wrong checksum was certainly not imported.
    fn is_garbage(&self, key: &str) -> bool {
        let imported = lock(&self.imported);
        imported
            .as_ref()
            .is_some_and(|imported| !imported.contains(key))
    }

    fn is_valid(&self, validity: Validity) -> bool {
        validity.generation == self.generation.load(Ordering::Acquire)
            && self.ticks.now_micros() < validity.until
    }

    pub(super) fn is_unreachable(&self) -> bool {
        let until = self.unreachable_until.load(Ordering::Acquire);
        until != 0 && self.ticks.now_micros() < until
    }

    /// Runs a query in bounded time, and notes whether the catalog answers.
    pub(super) async fn ask<T>(
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
