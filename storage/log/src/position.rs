//! Position of a frame.

use crate::segment;
use std::fmt;

/// Position between two frames: a segment's number and the byte offset in its file.
///
/// Positions order as the frames were written and are never used twice in the life of a log
/// directory, not even for frames that a recovery cut off: every start writes into a new segment,
/// and the numbers of segments only rise. Names of things sent elsewhere (insert tokens, say)
/// should be taken from positions.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Position {
    /// The segment's number, from 1.
    pub segment: u64,
    /// Bytes from the start of the segment's file.
    pub offset: u64,
}

impl Position {
    /// Position before every possible frame.
    pub const FIRST: Self = Self {
        segment: 0,
        offset: 0,
    };

    /// Name of the segment's file in the directory of the log.
    #[must_use]
    pub fn file_name(&self) -> String {
        segment::file_name(self.segment)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.segment, self.offset)
    }
}
