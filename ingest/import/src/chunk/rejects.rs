//! Rejects of a chunk: those that it makes, and those that it replays.

use crate::journal::{EventState, OpenRefusal};
use crate::rejected_records::Reject;

/// A record that gave no event.
#[derive(Clone, Debug)]
pub struct ChunkReject {
    /// Index of its file among the chunk's sources.
    pub source: u32,
    /// State that its event reached.
    pub event: EventState,
    /// The record with the reason.
    pub reject: Reject,
}

/// A reject that a chunk replays.
#[derive(Clone, Debug)]
pub struct ReplayedReject {
    /// Index of its file among the chunk's sources.
    pub source: u32,
    /// Ordinal of the record in that file.
    pub ordinal: u64,
    /// The refusal that still stands; `None` when it was not refused in this import.
    pub open_refusal: Option<OpenRefusal>,
}
