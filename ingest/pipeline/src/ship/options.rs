//! What the caller decides about a shipper.

use super::limits::Limits;
use millrace_rows::Lane;
use std::path::PathBuf;

/// How a lane is shipped.
#[derive(Clone, Debug)]
pub struct ShipOptions {
    /// This node's name, part of every insert's name: no two nodes that write to one ClickHouse
    /// may share it.
    pub node: String,
    /// Where rows go that ClickHouse cannot read, one pair of files each.
    pub poison_dir: PathBuf,
    /// When sections become an insert.
    pub limits: Limits,
}

impl ShipOptions {
    /// The defaults of a lane.
    #[must_use]
    pub fn of(lane: Lane, node: impl Into<String>, poison_dir: impl Into<PathBuf>) -> Self {
        Self {
            node: node.into(),
            poison_dir: poison_dir.into(),
            limits: Limits::of(lane),
        }
    }
}
