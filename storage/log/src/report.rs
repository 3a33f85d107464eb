//! Report of a recovery.

use crate::Position;
use std::path::PathBuf;

/// Findings of opening a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Recovery {
    /// Number of segments kept.
    pub segments: u64,
    /// Number of sound frames.
    pub frames: u64,
    /// Rows in these frames.
    pub rows: u64,
    /// Torn tail that was cut, if any.
    pub cut: Option<TornTail>,
    /// Damage with sound frames behind it. Reported at every start until its segment is
    /// released.
    pub quarantined: Vec<Quarantined>,
    /// Gaps: frames that are missing altogether.
    pub gaps: Vec<Gap>,
    /// Segments whose own header is damaged; their frames are counted above if readable.
    pub headers_damaged: Vec<u64>,
    /// Path that a damaged checkpoint was moved to: which rows were shipped has to be found out
    /// anew.
    pub checkpoint_damaged: Option<PathBuf>,
}

impl Recovery {
    /// Returns true if synced bytes are lost. A cut does not count: nothing in it was acknowledged.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.damage_count() > 0
    }

    /// Number of places where synced bytes are lost.
    #[must_use]
    pub fn damage_count(&self) -> u64 {
        // Quarantined frames leave a gap of their own.
        let starts = || self.quarantined.iter().map(|damage| damage.start);
        let is_bare = |gap: &&Gap| starts().all(|start| start != gap.after);
        let gaps = self.gaps.iter().filter(is_bare).count();
        let places = self.quarantined.len() + gaps + self.headers_damaged.len();
        places as u64 + u64::from(self.checkpoint_damaged.is_some())
    }
}

/// A torn tail that was cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TornTail {
    /// New end of the log.
    pub position: Position,
    /// Bytes cut, up to the last that was not zero.
    pub bytes: u64,
    /// Reason why the bytes are not a frame.
    pub reason: &'static str,
}

/// A damaged middle of a segment, which was copied to the quarantine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quarantined {
    /// Start of the damage.
    pub start: Position,
    /// Position from which reading goes on.
    pub end: Position,
    /// Reason why the bytes are not a frame.
    pub reason: &'static str,
    /// File with a copy of the damaged bytes; `None` if the disk was full.
    pub copy: Option<PathBuf>,
}

/// Frames missing between two sound ones.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Gap {
    /// End of the frame before.
    pub after: Position,
    /// Number of missing frames.
    pub frames: u64,
}
