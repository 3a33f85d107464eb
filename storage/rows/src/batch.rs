//! One request's rows, between the parser and the log.

use crate::{Month, RowKey, Table};
use std::ops::Deref;

/// Which log a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// Events as they happen.
    Live,
    /// Historical migrations: a log and a shipper of their own, so that an import never delays
    /// live events.
    Historical,
}

impl Lane {
    /// Both lanes.
    pub const ALL: [Self; 2] = [Self::Live, Self::Historical];

    /// The lane's name in paths, tokens and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Historical => "historical",
        }
    }
}

/// Encoded rows behind room for the head of a block, so that rows which are stored as they are need
/// not be moved to get one.
#[derive(Clone, Debug)]
pub struct RowBuffer(Vec<u8>);

/// Rows of one table and one month, encoded as RowBinary.
#[derive(Debug)]
pub struct RowGroup {
    /// Where they go.
    pub table: Table,
    /// The month of every row.
    pub month: Month,
    /// How many rows `bytes` holds.
    pub rows: u32,
    /// The rows.
    pub bytes: RowBuffer,
    /// A few of the rows' keys, spread over the group; never empty when `rows` is not 0.
    pub keys: Vec<RowKey>,
}

/// One request's rows: stored as a whole or not at all.
#[derive(Debug)]
pub struct Batch {
    /// Which log it goes to.
    pub lane: Lane,
    /// Its rows, at most one group per table and month.
    pub groups: Vec<RowGroup>,
}

impl Batch {
    /// Bytes of all rows.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.groups.iter().map(|group| group.bytes.len()).sum()
    }
}

impl RowBuffer {
    /// Room before the rows.
    pub const HEAD_BYTES: usize = 25;

    /// An empty one in the memory of another, with room for so many bytes of rows.
    #[must_use]
    pub fn reusing(mut spent: Vec<u8>, bytes_expected: usize) -> Self {
        spent.clear();
        spent.reserve(Self::HEAD_BYTES + bytes_expected);
        spent.resize(Self::HEAD_BYTES, 0);
        Self(spent)
    }

    /// What rows are appended to, and nothing else may be done with.
    #[inline]
    pub fn end(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    /// Forgets the rows and keeps the memory.
    pub fn clear(&mut self) {
        self.0.truncate(Self::HEAD_BYTES);
    }

    /// The head, or the room for it, and the rows behind it.
    #[must_use]
    pub fn as_block(&self) -> &[u8] {
        &self.0
    }

    /// The same, for the head to be written.
    #[must_use]
    pub fn as_block_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// As [`as_block`](Self::as_block), or just the memory, to be reused.
    #[must_use]
    pub fn into_block(self) -> Vec<u8> {
        self.0
    }
}

impl Deref for RowBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.get(Self::HEAD_BYTES..).unwrap_or_default()
    }
}

impl Default for RowBuffer {
    fn default() -> Self {
        Self::reusing(Vec::new(), 0)
    }
}

impl From<&[u8]> for RowBuffer {
    fn from(rows: &[u8]) -> Self {
        let mut buffer = Self::reusing(Vec::new(), rows.len());
        buffer.0.extend_from_slice(rows);
        buffer
    }
}
