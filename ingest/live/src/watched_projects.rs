//! Projects that are watched, in a table that requests look at without waiting.
//!
//! Only the hub writes entries. A request that reads an entry while it gets another project may
//! add its number of events to the other one; nothing else of a request goes by this table.

use millrace_rows::ProjectId;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

/// Most projects in the table: those with viewers, and those whose last viewer has just gone.
pub const WATCHED_MAX: usize = 128;
/// Entry without a project; ids of projects are positive.
const NO_PROJECT: i64 = i64::MIN;

/// Table of the projects that are watched.
#[derive(Debug)]
pub struct WatchedProjects {
    /// Number of entries in use.
    watched: AtomicUsize,
    entries: [Entry; WATCHED_MAX],
}

/// Numbers of events of a project since it is watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// All events, accepted or rejected.
    pub events: u64,
    /// Events among them that nobody looked at.
    pub unseen: u64,
}

#[derive(Debug)]
struct Entry {
    project_id: AtomicI64,
    events: AtomicU64,
    unseen: AtomicU64,
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            project_id: AtomicI64::new(NO_PROJECT),
            events: AtomicU64::new(0),
            unseen: AtomicU64::new(0),
        }
    }
}

impl Default for WatchedProjects {
    fn default() -> Self {
        Self {
            watched: AtomicUsize::new(0),
            entries: std::array::from_fn(|_| Entry::default()),
        }
    }
}

// === impl WatchedProjects ===

impl WatchedProjects {
    /// Returns true if any project is watched: one load, for every request.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.watched.load(Ordering::Relaxed) > 0
    }

    /// Returns true if a project is watched.
    pub fn contains(&self, project_id: ProjectId) -> bool {
        self.find(project_id).is_some()
    }

    /// Counts events of a project, and those of them that nobody looks at.
    pub fn count(&self, project_id: ProjectId, counts: EventCounts) {
        if let Some(entry) = self.find(project_id) {
            entry.events.fetch_add(counts.events, Ordering::Relaxed);
            entry.unseen.fetch_add(counts.unseen, Ordering::Relaxed);
        }
    }

    /// Numbers of events of a project since it was added.
    pub fn counts(&self, project_id: ProjectId) -> EventCounts {
        let entry = self.find(project_id);
        entry.map_or_else(EventCounts::default, |entry| EventCounts {
            events: entry.events.load(Ordering::Relaxed),
            unseen: entry.unseen.load(Ordering::Relaxed),
        })
    }

    /// Adds a project that is not in the table; false if the table is full. For the hub only.
    pub fn add(&self, project_id: ProjectId) -> bool {
        let Some(entry) = self.find(ProjectId(NO_PROJECT)) else {
            return false;
        };
        entry.events.store(0, Ordering::Relaxed);
        entry.unseen.store(0, Ordering::Relaxed);
        entry.project_id.store(project_id.0, Ordering::Relaxed);
        self.watched.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Removes a project. For the hub only.
    pub fn remove(&self, project_id: ProjectId) {
        if let Some(entry) = self.find(project_id) {
            entry.project_id.store(NO_PROJECT, Ordering::Relaxed);
            self.watched.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Removes all projects. For the hub only, as it ends.
    pub fn clear(&self) {
        self.watched.store(0, Ordering::Relaxed);
        for entry in &self.entries {
            entry.project_id.store(NO_PROJECT, Ordering::Relaxed);
        }
    }

    fn find(&self, project_id: ProjectId) -> Option<&Entry> {
        let mut entries = self.entries.iter();
        entries.find(|entry| entry.project_id.load(Ordering::Relaxed) == project_id.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: EventCounts = EventCounts {
        events: 5,
        unseen: 2,
    };

    #[test]
    fn projects_are_counted_from_when_they_are_added_and_apart() {
        let projects = WatchedProjects::default();
        let (first, second) = (ProjectId(1), ProjectId(2));
        assert!(!projects.is_any());
        projects.count(first, ONE);
        assert!(projects.add(first) && projects.add(second));
        assert!(projects.is_any() && projects.contains(first));
        projects.count(first, ONE);
        projects.count(first, ONE);
        let twice = EventCounts {
            events: 10,
            unseen: 4,
        };
        assert_eq!(projects.counts(first), twice);
        assert_eq!(projects.counts(second), EventCounts::default());
        projects.remove(first);
        assert!(!projects.contains(first) && projects.is_any());
        assert_eq!(projects.counts(first), EventCounts::default());
        assert!(projects.add(first));
        assert_eq!(projects.counts(first), EventCounts::default());
        projects.clear();
        assert!(!projects.is_any() && !projects.contains(second));
    }

    #[test]
    fn a_full_table_takes_no_more_projects() {
        let projects = WatchedProjects::default();
        for number in 1..=128 {
            assert!(projects.add(ProjectId(number)), "{number}");
        }
        assert!(!projects.add(ProjectId(129)));
        projects.remove(ProjectId(64));
        assert!(projects.add(ProjectId(129)));
    }
}
