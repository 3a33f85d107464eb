//! What a start tells of what it found.

use crate::Position;
use std::path::PathBuf;

/// What was found when a log was opened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Recovery {
    /// Segments kept.
    pub segments: u64,
    /// Sound frames.
    pub frames: u64,
    /// Rows in them.
    pub rows: u64,
    /// The torn tail, if there was one.
    pub cut: Option<Cut>,
    /// Damage with sound frames behind it. Reported at every start until its segment is
    /// released.
    pub quarantined: Vec<Quarantined>,
    /// Frames that are not there at all.
    pub gaps: Vec<Gap>,
    /// Segments whose own header is damaged; their frames are counted above if readable.
    pub headers_damaged: Vec<u64>,
    /// Where a damaged checkpoint was moved to: what was shipped has to be found out anew.
    pub checkpoint_damaged: Option<PathBuf>,
}

impl Recovery {
    /// Whether something is gone that had been synced. A cut is not: nothing in it was acknowledged.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.damages() > 0
    }

    /// Places where that is so.
    #[must_use]
    pub fn damages(&self) -> u64 {
        // What was quarantined leaves a gap of its own.
        let starts = || self.quarantined.iter().map(|damage| damage.start);
        let is_bare = |gap: &&Gap| starts().all(|start| start != gap.after);
        let gaps = self.gaps.iter().filter(is_bare).count();
        let places = self.quarantined.len() + gaps + self.headers_damaged.len();
        places as u64 + u64::from(self.checkpoint_damaged.is_some())
    }
}

/// A torn tail that was cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Where the log now ends.
    pub position: Position,
    /// Bytes cut, up to the last that was not zero.
    pub bytes: u64,
    /// Why it is no frame.
    pub reason: &'static str,
}

/// A damaged middle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quarantined {
    /// Where it starts.
    pub start: Position,
    /// Where reading goes on.
    pub end: Position,
    /// Why it is no frame.
    pub reason: &'static str,
    /// The file with the damaged bytes; `None` if there was no room for it.
    pub copy: Option<PathBuf>,
}

/// Frames missing between two sound places.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The end of the frame before.
    pub after: Position,
    /// How many are missing.
    pub frames: u64,
}
