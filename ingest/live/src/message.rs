//! Messages to viewers.

use serde::{Deserialize, Serialize};

/// Message to a viewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveMessage {
    /// An event.
    Event {
        /// Id of the event in the stream.
        id: String,
        /// The event as a JSON object.
        json: String,
    },
    /// Events that were shown as logged, and now are in ClickHouse.
    Stored {
        /// Their ids in the stream.
        ids: Vec<String>,
    },
    /// Numbers of the last second.
    Rate(LiveRate),
}

/// Numbers of events in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveRate {
    /// All events of the project, accepted or rejected.
    pub events: u64,
    /// Events among them that nobody looked at, as there were too many.
    pub unseen: u64,
    /// Events that were looked at and match the viewer's filter.
    pub matching: u64,
    /// Events among them that were sent to the viewer.
    pub shown: u64,
    /// Events that should have been sent, and that the viewer had no capacity for.
    pub dropped: u64,
    /// Nodes whose events these are.
    pub nodes: u32,
    /// Nodes that are not reached, and may have more.
    pub nodes_missing: u32,
}

// === impl LiveRate ===

impl LiveRate {
    /// Adds the numbers of another node.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            events: self.events.saturating_add(other.events),
            unseen: self.unseen.saturating_add(other.unseen),
            matching: self.matching.saturating_add(other.matching),
            shown: self.shown.saturating_add(other.shown),
            dropped: self.dropped.saturating_add(other.dropped),
            nodes: self.nodes.saturating_add(other.nodes),
            nodes_missing: self.nodes_missing.saturating_add(other.nodes_missing),
        }
    }
}
