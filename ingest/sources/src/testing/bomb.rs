//! Bomb with its expected outcome.

pub(super) const MIB: usize = 1 << 20;
pub(super) const CLAIM: i64 = i32::MAX as i64;

/// A bomb with its expected outcome.
#[derive(Clone, Debug)]
pub struct Bomb {
    /// Name in test failures.
    pub name: &'static str,
    /// Bytes of the file.
    pub bytes: Vec<u8>,
    /// Expected outcome.
    pub outcome: Outcome,
}

/// Outcome of reading a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The file is read to its end, and some of its rows are too long.
    Rows {
        /// Number of all rows.
        rows: u64,
        /// Number of rows that are too long.
        too_long: u64,
    },
    /// The file is refused, and the reason contains these words.
    Refused(&'static str),
}

pub(super) fn bomb(name: &'static str, bytes: Vec<u8>, outcome: Outcome) -> Bomb {
    Bomb {
        name,
        bytes,
        outcome,
    }
}
