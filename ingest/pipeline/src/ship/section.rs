//! Sections as the shipper keeps them in memory: position and contents, not bytes.

use millrace_log::Position;
use millrace_rows::{Month, RowKey, Table};
use std::fmt;
use std::sync::Arc;

/// Key of rows that may share a batch: one column list and one month.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InsertKey {
    /// Table and columns behind `INSERT INTO`, as the frame names them. After an upgrade two column
    /// lists of one table may be in flight at once.
    pub insert_target: Arc<str>,
    /// The month of every row.
    pub month: Month,
}

impl InsertKey {
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

/// Position of a section in the log: its frame, and its index in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SectionPosition {
    /// Start of the frame.
    pub frame: Position,
    /// Index in the frame, from 0.
    pub section: u32,
}

impl fmt::Display for SectionPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.frame, self.section)
    }
}

/// A section that waits or is in flight. `S` locates its bytes.
#[derive(Clone, Debug)]
pub struct Section<S> {
    pub position: SectionPosition,
    pub rows: u32,
    /// Bytes of the rows before compression.
    pub row_bytes: u64,
    /// A few keys of its rows.
    pub keys: Vec<RowKey>,
    /// True if the section may have been shipped already: it is older than this start of the
    /// process. It was not, unless the checkpoint is lost, or the folder is an older copy of one
    /// that was used elsewhere.
    pub is_suspect: bool,
    pub source: S,
}
