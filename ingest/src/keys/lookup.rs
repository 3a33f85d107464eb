//! Look-ups of keys in the catalog, one for all requests that want the same key.

use super::answers::{
    CatalogUnavailable, FOUND_MICROS, FoundKey, LookedUpKey, LookupResult, PendingLookup,
    UNKNOWN_MICROS, Validity, lock,
};
use super::cache::{KeyCache, Keys};
use millrace_catalog::ProjectKeys;
use millrace_parse::{KeyLookup, Project};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::watch;

/// Keys that are looked up at a time, of any clients.
pub(super) const LOOKUPS_MAX: usize = 1_024;
/// Keys that are looked up at a time including those that were found before, which no client can
/// make up: keys of nobody do not keep them waiting.
pub(super) const LOOKUPS_WITH_FOUND_MAX: usize = 2 * LOOKUPS_MAX;

impl Keys {
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
                // The look-up began before a change that this caller may know of.
                found if found.generation < oldest => {}
                found => return Ok(found.project),
            }
        }
    }

    /// Joins the look-up that is under way, or begins one.
    fn join_lookup(&self, key: &str) -> Result<PendingLookup, CatalogUnavailable> {
        let (answer, pending) = watch::channel(None);
        let key: Arc<str> = key.into();
        {
            let mut lookups = lock(&self.0.lookups);
            if let Some(pending) = lookups.get(&key) {
                return Ok(pending.clone());
            }
            let lookups_max = match self.0.found.contains_key(&*key) {
                true => LOOKUPS_WITH_FOUND_MAX,
                false => LOOKUPS_MAX,
            };
            if lookups.len() >= lookups_max {
                return Err(CatalogUnavailable);
            }
            lookups.insert(key.clone(), pending.clone());
        }
        let lookup = Lookup {
            shared: self.0.clone(),
            key,
            answer,
        };
        // On the catalog's runtime, because its connections live there; and detached, because
        // others wait for it too. It ends with its query's time-out at the latest.
        self.0.catalog.runtime().spawn(lookup.run());
        Ok(pending)
    }
}

/// Look-up under way. Dropping it ends it for all that wait.
struct Lookup {
    shared: Arc<KeyCache>,
    key: Arc<str>,
    answer: watch::Sender<Option<LookupResult>>,
}

impl Lookup {
    async fn run(self) {
        let mut answer = self.ask().await;
        if let (Err(CatalogUnavailable), Some(project)) =
            (answer, self.shared.found_before(&self.key))
        {
            // The catalog does not answer.
            answer = Ok(LookedUpKey {
                project: Some(project),
                generation: u64::MAX,
            });
        }
        self.answer.send_replace(Some(answer));
    }

    /// Asks until no change happened meanwhile.
    async fn ask(&self) -> LookupResult {
        loop {
            let generation = self.shared.generation.load(Ordering::Acquire);
            let row = ProjectKeys::new(&self.shared.catalog).find(&self.key);
            let row = self.shared.ask(row).await?;
            if let Some(row) = row {
                let organizations = &self.shared.organizations;
                organizations.insert(row.project_id, row.organization_id);
            }
            let project = row.map(|row| Project {
                id: row.project_id,
                anonymize_ips: row.anonymize_ips,
                ingested_event: row.ingested_event,
            });
            let looked = LookedUpKey {
                project,
                generation,
            };
            self.shared.store(&self.key, looked);
            if self.shared.generation.load(Ordering::Acquire) == generation {
                return Ok(looked);
            }
            // Revoked keys may have been dropped before this one was there.
            self.shared.found.invalidate(&*self.key);
        }
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        lock(&self.shared.lookups).remove(&self.key);
    }
}

impl KeyCache {
    /// Keeps an answer for as long as it counts.
    pub(super) fn store(&self, key: &Arc<str>, looked: LookedUpKey) {
        let now = self.ticks.now_micros();
        let generation = looked.generation;
        if let Some(project) = looked.project {
            let until = now + FOUND_MICROS;
            let validity = Validity { generation, until };
            self.found
                .insert(key.clone(), FoundKey { project, validity });
        } else {
            let until = now + UNKNOWN_MICROS;
            self.found.invalidate(&**key);
            self.unknown
                .insert(key.clone(), Validity { generation, until });
        }
    }
}
