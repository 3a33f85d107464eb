//! Load on a server.

use crate::event_shape::EventShape;
use crate::plan::{Compression, Plan};

/// Load on a server.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Number of events in a request.
    pub batch_events: u32,
    /// Size of an event in bytes.
    pub event_bytes: usize,
    /// Similarity of the events.
    pub event_shape: EventShape,
    /// Number of connections.
    pub connections: u16,
    /// Encoding of the bodies.
    pub compression: Compression,
}

impl Load {
    /// Applies the load to a plan.
    pub fn apply(self, plan: &mut Plan) {
        plan.batch_events = self.batch_events;
        plan.event_bytes = self.event_bytes;
        plan.event_shape = self.event_shape;
        plan.connections = self.connections;
        plan.compression = self.compression;
    }
}

/// Load of visits, without compression.
pub(super) const fn load(batch_events: u32, event_bytes: usize, connections: u16) -> Load {
    Load {
        batch_events,
        event_bytes,
        event_shape: EventShape::Visits,
        connections,
        compression: Compression::None,
    }
}

/// Batches of SDKs that send much; the product's goal is stated for them.
pub const BATCHES: Load = load(250, 998, 16);
