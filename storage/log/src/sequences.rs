//! Sequences of frames, and gaps in them.

use crate::Position;
use crate::report::Gap;

/// Checker of the sequences of one segment.
#[derive(Debug, Default)]
pub struct Sequences {
    /// Sequence and end of the last frame.
    pub last: Option<(u64, Position)>,
    /// Gaps, in the order of the log.
    pub gaps: Vec<Gap>,
}

impl Sequences {
    /// Records the sequence of the next frame, which ends at `end`.
    pub fn record(&mut self, sequence: u64, end: Position) {
        if let Some((last, after)) = self.last
            && sequence > last + 1
        {
            self.gaps.push(Gap {
                after,
                frames: sequence - last - 1,
            });
        }
        self.last = Some((sequence, end));
    }
}
