//! The model's data folder, and a copy of its machine.

use super::server::RowId;
use crate::ship::checkpoint::Checkpoint;
use crate::ship::section::InsertKey;
use millrace_log::Position;
use std::collections::BTreeMap;

/// Contents of a data folder.
#[derive(Clone)]
pub(super) struct Folder {
    pub(super) log: BTreeMap<Position, LoggedFrame>,
    pub(super) end: Position,
    pub(super) stored: Option<Checkpoint>,
}

/// A frame; its start is the map's key.
#[derive(Clone)]
pub(super) struct LoggedFrame {
    pub(super) end: Position,
    pub(super) sections: Vec<(InsertKey, Vec<RowId>)>,
}

/// Copy of a machine: its disk, and the memory of its process.
pub(super) struct Snapshot {
    pub(super) folder: Folder,
    /// Number of rows at that time.
    pub(super) rows: RowId,
    /// The plan, of which nothing is in flight.
    pub(super) plan: Checkpoint,
    pub(super) start_mark: u32,
}
