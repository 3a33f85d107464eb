//! Positions up to which the logs are shipped.

use millrace_log::Position;
use millrace_rows::Lane;
use tokio::sync::watch;

/// Positions of the lanes' logs below which everything is in ClickHouse.
#[derive(Clone, Debug)]
pub struct ShippedPositions {
    /// Position of the live lane.
    pub live: watch::Receiver<Position>,
    /// Position of the lane of historical migrations.
    pub historical: watch::Receiver<Position>,
}

// === impl ShippedPositions ===

impl ShippedPositions {
    /// Position of a lane.
    pub(crate) fn of(&self, lane: Lane) -> Position {
        match lane {
            Lane::Live => *self.live.borrow(),
            Lane::Historical => *self.historical.borrow(),
        }
    }
}
