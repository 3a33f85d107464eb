//! Rows of one request, between the parser and the log.

use crate::{Month, RowKey, Table};

/// Lane of a request: the log that its rows go to.
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

/// Rows of one table and one month, encoded as RowBinary.
#[derive(Debug)]
pub struct RowGroup {
    /// Table of the rows.
    pub table: Table,
    /// The month of every row.
    pub month: Month,
    /// Number of rows in `bytes`.
    pub rows: u32,
    /// The rows.
    pub bytes: Vec<u8>,
    /// A few of the rows' keys, spread over the group; never empty when `rows` is not 0.
    pub keys: Vec<RowKey>,
}

/// Rows of one request: stored as a whole or not at all.
#[derive(Debug)]
pub struct Batch {
    /// Lane of the request.
    pub lane: Lane,
    /// Rows of the request, at most one group per table and month.
    pub groups: Vec<RowGroup>,
}

impl Batch {
    /// Bytes of all rows.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.groups.iter().map(|group| group.bytes.len()).sum()
    }
}
