//! Changes of keys by other processes, and the list of imported keys, which goes with them.

use super::{Keys, Shared, lock};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often other processes' changes are looked for: often enough for a key that was revoked
/// elsewhere to be dead here within two seconds.
pub(super) const POLL_PERIOD: Duration = Duration::from_millis(500);
/// With more imported keys than these, checksums are not used to refuse.
const IMPORTED_MAX: usize = 10_000;

impl Keys {
    /// Watches for changes by other processes. Never ends; spawn it, and abort it at the end.
    pub async fn watch_changes(self) {
        let mut seen = None;
        let mut ticker = tokio::time::interval(POLL_PERIOD);
        ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticker.tick().await;
            self.look_for_changes(&mut seen).await;
        }
    }

    /// One look at the counter of changes; `seen` is what it showed last.
    pub(super) async fn look_for_changes(&self, seen: &mut Option<i64>) {
        let catalog = self.0.catalog.clone();
        let version = self
            .0
            .ask(async move { catalog.keys_version().await })
            .await;
        let Ok(version) = version else { return };
        let moved = seen
            .replace(version)
            .is_some_and(|before| before != version);
        if moved {
            self.invalidate_all();
        }
        if lock(&self.0.imported).is_none() {
            self.load_imported().await;
        }
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
