//! Watched project: its viewers, and its last events, for a viewer who comes back.

use crate::event::LiveEvent;
use crate::shipped::ShippedPositions;
use crate::viewer::{MESSAGES_MAX, Offer, Viewer};
use crate::watched_projects::EventCounts;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Time for which a project without viewers is watched: as long as a viewer takes to come back.
const LINGER: Duration = Duration::from_secs(15);
/// Most events that are kept for viewers who come back, in number and in bytes of their rows.
const KEPT_MAX: usize = 200;
const KEPT_BYTES_MAX: usize = 512 << 10;

/// Project that is watched.
#[derive(Debug, Default)]
pub struct WatchedProject {
    pub viewers: Vec<Viewer>,
    /// Last events, the newest one last.
    kept: VecDeque<Arc<LiveEvent>>,
    kept_bytes: usize,
    /// Numbers of events as they were last told.
    told: EventCounts,
    /// Time since which there is no viewer.
    alone_since: Option<Instant>,
}

// === impl WatchedProject ===

impl WatchedProject {
    /// Adds a viewer, and shows it the events behind the one that it saw last.
    pub fn add(&mut self, mut viewer: Viewer, seen: Option<u64>, node: &str) {
        if let Some(seen) = seen {
            let missed = self.kept.iter().filter(|event| event.number > seen);
            let missed: Vec<_> = missed.filter(|event| viewer.wants(event)).collect();
            // The newest ones, as far as there are places for them.
            let left_out = missed.len().saturating_sub(MESSAGES_MAX);
            for event in missed.into_iter().skip(left_out) {
                viewer.show(&mut Offer::of(event, node));
            }
        }
        self.viewers.push(viewer);
        self.alone_since = None;
    }

    /// Shows an event to the viewers.
    pub fn show(&mut self, event: LiveEvent, node: &str) {
        let event = Arc::new(event);
        let mut offer = Offer::of(&event, node);
        for viewer in &mut self.viewers {
            viewer.offer(&mut offer);
        }
        self.keep(Arc::clone(&event));
    }

    fn keep(&mut self, event: Arc<LiveEvent>) {
        self.kept_bytes += event.bytes;
        self.kept.push_back(event);
        while self.kept.len() > KEPT_MAX || self.kept_bytes > KEPT_BYTES_MAX {
            let Some(oldest) = self.kept.pop_front() else {
                return;
            };
            self.kept_bytes -= oldest.bytes;
        }
    }

    /// Tells the viewers which events are stored by now.
    pub fn tell_stored(&mut self, shipped: &ShippedPositions, node: &str) {
        for viewer in &mut self.viewers {
            viewer.tell_stored(shipped, node);
        }
    }

    /// Tells the viewers the numbers of a second, given those since the project is watched.
    pub fn tell_rates(&mut self, counts: EventCounts) {
        let of_second = EventCounts {
            events: counts.events.saturating_sub(self.told.events),
            unseen: counts.unseen.saturating_sub(self.told.unseen),
        };
        self.told = counts;
        for viewer in &mut self.viewers {
            viewer.tell_rate(of_second);
        }
    }

    /// Removes viewers who are gone; returns true if the project need not be watched any more.
    pub fn is_over(&mut self, now: Instant) -> bool {
        self.viewers.retain(|viewer| !viewer.is_gone());
        if !self.viewers.is_empty() {
            return false;
        }
        let since = *self.alone_since.get_or_insert(now);
        now.duration_since(since) >= LINGER
    }
}
