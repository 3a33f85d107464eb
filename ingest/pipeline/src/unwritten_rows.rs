//! Rows of a request that is answered before they are written.

use crate::pack::PackedGroup;
use crate::queue_permit::QueuePermit;
use crate::threads::AtomicBool;
use metrics::counter;
use millrace_rows::Lane;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Rows that are acknowledged and not written yet, with their share of the queue. Unless they are
/// settled they are counted as lost when they are dropped, as a commit thread that panics does.
pub struct UnwrittenRows {
    lane: Lane,
    rows: u64,
    ended_well: Arc<AtomicBool>,
    _permit: QueuePermit,
}

impl UnwrittenRows {
    /// Rows of a request for a lane, whose commit thread sets `ended_well` when it ends as ordered.
    pub fn new(
        lane: Lane,
        ended_well: &Arc<AtomicBool>,
        groups: &[PackedGroup],
        permit: QueuePermit,
    ) -> Self {
        Self {
            lane,
            rows: groups.iter().map(PackedGroup::rows).sum(),
            ended_well: Arc::clone(ended_well),
            _permit: permit,
        }
    }

    /// Number of the rows.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Settles the rows: they are stored, or their request is told that they are not.
    pub fn settle(mut self) {
        self.rows = 0;
    }
}

impl Drop for UnwrittenRows {
    fn drop(&mut self) {
        // Rows left by a thread that ended as ordered came after the order: none was acknowledged.
        if self.rows > 0 && !self.ended_well.load(Ordering::Acquire) {
            counter!("millrace_log_rows_lost_total", "lane" => self.lane.name())
                .increment(self.rows);
        }
    }
}
