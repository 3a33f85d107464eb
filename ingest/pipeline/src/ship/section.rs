//! What the shipper keeps in memory of a section of the log: where it lies and what it holds, not
//! its bytes.

use millrace_log::Position;
use millrace_rows::{Month, RowKey, Table};
use std::fmt;
use std::sync::Arc;

/// Which rows may share an insert: those of one column list and one month.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// What follows `INSERT INTO`, as the frame names it. After an upgrade two lists of one table
    /// may be on their way at once.
    pub insert_target: Arc<str>,
    /// The month of every row.
    pub month: Month,
}

impl Key {
    /// The name of the table.
    pub fn table_name(&self) -> &str {
        self.insert_target
            .split('(')
            .next()
            .unwrap_or_default()
            .trim()
    }

    /// The table, if this version knows it.
    pub fn table(&self) -> Option<Table> {
        Table::of_insert_target(&self.insert_target)
    }
}

/// Where a section lies: its frame, and its number in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Start of the frame.
    pub frame: Position,
    /// From 0.
    pub section: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.frame, self.section)
    }
}

/// A section that waits or is under way. `S` leads to its bytes.
#[derive(Clone, Debug)]
pub struct Section<S> {
    pub place: Place,
    pub rows: u32,
    /// Bytes of the rows before compression.
    pub row_bytes: u64,
    /// A few keys of its rows.
    pub keys: Vec<RowKey>,
    /// Nobody knows whether it was shipped: it is older than this start of the process. Then it was not,
    /// unless the checkpoint is lost, or the folder is an older copy of one that went on elsewhere.
    pub is_suspect: bool,
    pub source: S,
}
