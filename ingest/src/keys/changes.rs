//! Changes of keys, by this process and by others, and the list of imported keys, which goes with them.

use super::{CatalogUnavailable, Keys, Shared, lock};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often other processes' changes are looked for: often enough for a key that was revoked
/// elsewhere to be dead here within two seconds.
pub(super) const POLL_PERIOD: Duration = Duration::from_millis(500);
/// With more imported keys than these, checksums are not used to refuse.
const IMPORTED_MAX: usize = 10_000;
/// Known keys that are asked about at once.
const RECHECKED_MAX: usize = 500;

impl Keys {
    /// Watches for changes by other processes. Never ends; spawn it, and abort it at the end.
    pub async fn watch_changes(self) {
        let mut ticker = tokio::time::interval(POLL_PERIOD);
        ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticker.tick().await;
            self.look_for_changes().await;
        }
    }

    /// Ends when no answer counts any more that is older than the call: whoever changed keys in this
    /// process waits for it before saying so. Any runtime may await it.
    pub async fn catch_up(&self) {
        let keys = self.clone();
        // On the catalog's runtime, because its connections live there.
        let looked = self.0.catalog.runtime().spawn(async move {
            let version = keys.version().await.ok();
            version.is_some() && version == *lock(&keys.0.seen_version)
        });
        if !looked.await.unwrap_or(false) {
            // What the counter says beyond that is for the next look, which sees it once more.
            self.invalidate_all();
        }
    }

    /// One look at the counter of changes.
    pub(super) async fn look_for_changes(&self) {
        let Ok(version) = self.version().await else {
            return;
        };
        let seen = *lock(&self.0.seen_version);
        if seen != Some(version) {
            self.invalidate_all();
            if self.forget_revoked().await.is_err() {
                // Seen once more the next time.
                return;
            }
            *lock(&self.0.seen_version) = Some(version);
        }
        if lock(&self.0.imported).is_none() {
            self.load_imported().await;
        }
    }

    async fn version(&self) -> Result<i64, CatalogUnavailable> {
        let catalog = self.0.catalog.clone();
        let version = async move { catalog.keys_version().await };
        self.0.ask(version).await
    }

    /// Looks which of the known keys are nobody's any more, without waiting for them to be used:
    /// while the catalog cannot be reached known keys go on working, and a key that was revoked
    /// before must not.
    async fn forget_revoked(&self) -> Result<(), CatalogUnavailable> {
        let known: Vec<Arc<str>> = self.0.found.iter().map(|(key, _)| (*key).clone()).collect();
        for keys in known.chunks(RECHECKED_MAX) {
            let (catalog, asked) = (self.0.catalog.clone(), keys.to_vec());
            let living = async move {
                let keys: Vec<&str> = asked.iter().map(|key| &**key).collect();
                catalog.living_project_keys(&keys).await
            };
            let living: HashSet<String> = self.0.ask(living).await?.into_iter().collect();
            for key in keys.iter().filter(|key| !living.contains(&***key)) {
                self.0.found.invalidate(&**key);
            }
        }
        Ok(())
    }

    async fn load_imported(&self) {
        let generation = self.0.generation.load(Ordering::Acquire);
        let catalog = self.0.catalog.clone();
        let keys_max = IMPORTED_MAX as u64 + 1;
        let keys = self
            .0
            .ask(async move { catalog.imported_project_keys(keys_max).await })
            .await;
        let Ok(keys) = keys else { return };
        let mut imported = lock(&self.0.imported);
        // A change since then may have added one.
        if keys.len() <= IMPORTED_MAX && generation == self.0.generation.load(Ordering::Acquire) {
            *imported = Some(keys.into_iter().collect());
        }
    }
}

impl Shared {
    /// Whether a key with a wrong checksum was certainly not imported.
    pub(super) fn is_garbage(&self, key: &str) -> bool {
        let imported = lock(&self.imported);
        imported
            .as_ref()
            .is_some_and(|imported| !imported.contains(key))
    }
}
