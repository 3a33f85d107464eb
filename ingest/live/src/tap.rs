//! Tap on ingestion: what requests call.

use crate::observation::{Observation, Observed, RequestFacts};
use crate::row_copy::RowCopy;
use crate::shared::Shared;
use millrace_rows::{Batch, ProjectId};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc;

/// Bytes of all copies from which on nothing is copied.
const QUEUED_BYTES_MAX: usize = 8 << 20;

/// Tap on ingestion. Clones share it. By default nobody can watch.
#[derive(Clone, Debug)]
pub struct LiveTap {
    shared: Arc<Shared>,
    queue: mpsc::Sender<Observed>,
}

impl Default for LiveTap {
    fn default() -> Self {
        let (queue, _) = mpsc::channel(1);
        Self::new(Arc::default(), queue)
    }
}

// === impl LiveTap ===

impl LiveTap {
    pub(crate) const fn new(shared: Arc<Shared>, queue: mpsc::Sender<Observed>) -> Self {
        Self { shared, queue }
    }

    /// Returns true if anybody watches any project.
    #[inline]
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.shared.projects.is_any()
    }

    /// Copies the rows of a request before they are handed over; `None` if nobody watches its
    /// project. `facts` is called otherwise.
    #[cold]
    #[inline(never)]
    #[must_use]
    pub fn observe(
        &self,
        project_id: ProjectId,
        batch: &Batch,
        facts: impl FnOnce() -> RequestFacts,
    ) -> Option<Box<Observation>> {
        if !self.shared.projects.contains(project_id) {
            return None;
        }
        let queued_bytes = self.shared.queued_bytes.load(Ordering::Relaxed);
        let has_capacity = self.queue.capacity() > 0 && queued_bytes < QUEUED_BYTES_MAX;
        let rows = has_capacity.then(|| RowCopy::of(batch, &self.shared));
        Some(Box::new(Observation {
            shared: Arc::clone(&self.shared),
            queue: self.queue.clone(),
            project_id,
            facts: facts(),
            rows,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{batch, event_group, facts};

    #[test]
    fn only_requests_of_watched_projects_are_observed() {
        let tap = LiveTap::default();
        let batch = batch(vec![event_group(202_611, &["a"])]);
        assert!(!tap.is_watched());
        tap.shared.projects.add(ProjectId(1));
        assert!(tap.is_watched());
        for (project_id, expected) in [(1, true), (2, false)] {
            let observed = tap.observe(ProjectId(project_id), &batch, || facts(1, 0));
            assert_eq!(observed.is_some(), expected, "{project_id}");
        }
    }
}
