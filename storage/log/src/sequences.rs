//! Numbers of frames, one after the other, and where some are missing.

use crate::Position;
use crate::report::Gap;

/// Gaps in the sequences of one segment.
#[derive(Debug, Default)]
pub struct Sequences {
    /// Number and end of the last frame.
    pub last: Option<(u64, Position)>,
    /// Where frames are missing, in the order of the log.
    pub gaps: Vec<Gap>,
}

impl Sequences {
    /// Takes the number of the next frame, which ends at `end`.
    pub fn see(&mut self, sequence: u64, end: Position) {
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
