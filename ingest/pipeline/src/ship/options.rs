//! Options of a shipper.

use super::filled_columns::FilledColumns;
use super::limits::Limits;
use millrace_rows::Lane;
use std::path::PathBuf;

/// Format in which batches of events are sent. Others, parts, and rows that no block can be made
/// of are sent as they are in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InsertFormat {
    /// Rows as they are in the log.
    #[default]
    RowBinary,
    /// Native blocks as they are: a copy less, and as many bytes as the rows have.
    NativePlain,
    /// Native blocks that are compressed like the rows in the log.
    NativeLz4,
}

/// Options of a lane's shipper.
#[derive(Clone, Debug)]
pub struct ShipOptions {
    /// Name of this node, part of every batch's token: no two nodes that write to one ClickHouse
    /// may share it.
    pub node: String,
    /// Folder of dead letters: rows that ClickHouse cannot read, a pair of files each.
    pub dead_letters_dir: PathBuf,
    /// Limits that decide when sections become a batch.
    pub limits: Limits,
    /// Format in which batches of events are sent.
    pub insert_format: InsertFormat,
    /// Property columns that native blocks have; none by default.
    pub filled_columns: FilledColumns,
}

impl ShipOptions {
    /// The defaults of a lane.
    #[must_use]
    pub fn of(lane: Lane, node: impl Into<String>, dead_letters_dir: impl Into<PathBuf>) -> Self {
        Self {
            node: node.into(),
            dead_letters_dir: dead_letters_dir.into(),
            limits: Limits::of(lane),
            insert_format: InsertFormat::default(),
            filled_columns: FilledColumns::default(),
        }
    }
}
