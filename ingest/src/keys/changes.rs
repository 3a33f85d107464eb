//! Changes of keys, by this process and by others, and the list of imported keys, which goes with
//! them.

use super::answers::{CatalogUnavailable, StaleKeys, lock};
use super::cache::{KeyCache, Keys};
use millrace_catalog::ProjectKeys;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Interval in which other processes' changes are looked for: often enough for a key that was
/// revoked elsewhere to be dead here within two seconds.
pub(super) const POLL_PERIOD: Duration = Duration::from_millis(500);
/// Imported keys above which checksums are not used to refuse.
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
            self.poll_changes().await;
        }
    }

    /// Makes answers from before the call stale if a key changed: to be awaited by whoever changed
    /// keys in this process, before saying so. Any runtime may await it.
    pub async fn catch_up(&self) {
        let keys = self.clone();
        // On the catalog's runtime, because its connections live there.
        let looked = self.0.catalog.runtime().spawn(async move {
            let version = keys.version().await.ok();
            version.is_some() && version == *lock(&keys.0.seen_version)
        });
        if !looked.await.unwrap_or(false) {
            // A later value of the counter is for the next look, which sees it once more.
            self.invalidate_all();
        }
    }

    /// Looks at the counter of changes once.
    pub(super) async fn poll_changes(&self) {
        let before = self.0.generation.load(Ordering::Acquire);
        let Ok(version) = self.version().await else {
            return;
        };
        let seen = *lock(&self.0.seen_version);
        if seen == Some(version) {
            // Keys were stale because of a failure, not of a change.
            self.0.narrow_stale_keys(before, StaleKeys::None);
        } else {
            let generation = self.invalidate_all();
            let unchecked = self.forget_revoked().await;
            let is_done = unchecked == StaleKeys::None;
            self.0.narrow_stale_keys(generation, unchecked);
            if !is_done {
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

    /// Drops known keys that were revoked, without waiting for them to be used: while the catalog
    /// cannot be reached known keys go on working, and a key that was revoked before must not.
    /// Returns the keys that the catalog did not answer for.
    async fn forget_revoked(&self) -> StaleKeys {
        let known: Vec<Arc<str>> = self.0.found.iter().map(|(key, _)| (*key).clone()).collect();
        for (round, keys) in known.chunks(RECHECKED_MAX).enumerate() {
            let (catalog, asked) = (self.0.catalog.clone(), keys.to_vec());
            let living = async move {
                let keys: Vec<&str> = asked.iter().map(|key| &**key).collect();
                ProjectKeys::new(&catalog).filter_living(&keys).await
            };
            let Ok(living) = self.0.ask(living).await else {
                let unchecked = known.iter().skip(round * RECHECKED_MAX);
                return StaleKeys::Some(unchecked.cloned().collect());
            };
            let living: HashSet<String> = living.into_iter().collect();
            for key in keys.iter().filter(|key| !living.contains(&***key)) {
                self.0.found.invalidate(&**key);
            }
        }
        StaleKeys::None
    }

    async fn load_imported(&self) {
        let generation = self.0.generation.load(Ordering::Acquire);
        let catalog = self.0.catalog.clone();
        let keys_max = IMPORTED_MAX as u64 + 1;
        let keys = self
            .0
            .ask(async move { ProjectKeys::new(&catalog).list_imported(keys_max).await })
            .await;
        let Ok(keys) = keys else { return };
        let mut imported = lock(&self.0.imported);
        // A change since then may have added one.
        if keys.len() <= IMPORTED_MAX && generation == self.0.generation.load(Ordering::Acquire) {
            *imported = Some(keys.into_iter().collect());
        }
    }
}

impl KeyCache {
    /// Narrows the stale keys down to what a look left, if nothing changed since it began.
    fn narrow_stale_keys(&self, generation: u64, left: StaleKeys) {
        let mut stale_keys = lock(&self.stale_keys);
        if self.generation.load(Ordering::Acquire) == generation {
            *stale_keys = left;
        }
    }
}
