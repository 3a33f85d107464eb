//! Notes in the catalog that a project has events.
//!
//! Beside the requests and never in their way: projects wait in a set until one task has noted them
//! in the catalog, one after the other. A note that is lost because the set is full, the catalog
//! fails or the process ends is made good by the project's next events, whose answer from the cache
//! still says that nothing is noted. Another process notices at its next look-up of the key.

use super::answers::{FoundKey, QUERY_TIMEOUT, RETRY_MICROS, lock};
use super::cache::{KeyCache, Keys};
use super::memo;
use millrace_catalog::ProjectKeys;
use millrace_rows::ProjectId;
use moka::ops::compute::Op;
use std::sync::Arc;

/// Projects that wait to be noted at a time.
const WAITING_MAX: usize = 1_024;

impl Keys {
    /// Has the catalog note that the project of this key has events. For projects whose
    /// [`millrace_parse::Project::ingested_event`] is false. Never waits.
    pub fn note_first_event(&self, key: &str, project_id: ProjectId) {
        let shared = &self.0;
        if let Some(found) = shared.found.get(key)
            && found.project.ingested_event
        {
            // Another thread has noted the project.
            memo::insert(shared.id, key, found);
            return;
        }
        if shared.is_unreachable() {
            return;
        }
        let mut first = lock(&shared.first_events);
        let is_paused = shared.ticks.now_micros() < first.paused_until;
        if is_paused || first.waiting.len() >= WAITING_MAX {
            return;
        }
        first
            .waiting
            .entry(project_id)
            .or_insert_with(|| key.into());
        if !first.is_running {
            first.is_running = true;
            let noting = shared.clone().note_all();
            shared.catalog.runtime().spawn(noting);
        }
    }
}

impl KeyCache {
    /// Notes all projects that wait.
    async fn note_all(self: Arc<Self>) {
        while let Some((project_id, key)) = self.next_waiting() {
            let noting = ProjectKeys::new(&self.catalog).note_first_event(project_id);
            match tokio::time::timeout(QUERY_TIMEOUT, noting).await {
                Ok(Ok(())) => {
                    self.mark_noted(&key);
                    lock(&self.first_events).waiting.remove(&project_id);
                }
                Ok(Err(error)) => self.pause_noting(&error.to_string()),
                Err(_) => self.pause_noting("no answer in time"),
            }
        }
    }

    /// Next project to note; without one the task ends.
    fn next_waiting(&self) -> Option<(ProjectId, Arc<str>)> {
        let mut first = lock(&self.first_events);
        let next = first.waiting.first_key_value();
        let next = next.map(|(project_id, key)| (*project_id, key.clone()));
        first.is_running = next.is_some();
        next
    }

    /// Marks the cached project as noted, so that later events cost nothing. A key that was
    /// forgotten meanwhile stays forgotten.
    fn mark_noted(&self, key: &Arc<str>) {
        let noted = |entry: Option<moka::Entry<Arc<str>, FoundKey>>| match entry {
            Some(entry) => {
                let mut found = entry.into_value();
                found.project.ingested_event = true;
                Op::Put(found)
            }
            None => Op::Nop,
        };
        self.found.entry(key.clone()).and_compute_with(noted);
    }

    fn pause_noting(&self, reason: &str) {
        tracing::warn!(
            reason,
            "the first events of a project could not be noted yet"
        );
        let mut first = lock(&self.first_events);
        first.waiting.clear();
        first.paused_until = self.ticks.now_micros() + RETRY_MICROS;
    }
}
