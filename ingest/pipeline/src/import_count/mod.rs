//! Counts the events of imports: when they are committed, and after a crash from the log.
//!
//! Events that were admitted come with an [`ImportReservation`] along with the batch. The commit
//! thread counts it when the batch is on disk, before the request is answered, together with the
//! position up to which it has counted; if the batch is not stored, or its client went away before
//! it was handed over, the reservation is refunded. The counts are reported to the catalog now and
//! then; until then the log is kept from there on (`Pipeline::keep_historical_from`), so that
//! after a crash the events since can be counted from the log (`Pipeline::recount_imports`). A
//! recount that panics would do so at every start, so it is an error that says where.

mod log;

pub use log::RecountError;

use millrace_log::Position;
use millrace_rows::ProjectId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Reservation of a project's events that may be stored. Dropping it refunds them.
#[derive(Debug)]
#[must_use = "a reservation that is dropped is refunded"]
pub struct ImportReservation {
    project_id: ProjectId,
    events: u64,
    refund_to: Arc<AtomicU64>,
}

/// Events of imports that were counted since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportCount {
    /// Everything below this position of the log of imports is counted.
    pub counted_to: Position,
    /// Events by project.
    pub events: BTreeMap<ProjectId, u64>,
}

/// Import count of a lane, shared with its commit thread.
#[derive(Clone, Debug)]
pub(crate) struct ImportCounter(Arc<Mutex<ImportCount>>);

// === impl ImportReservation ===

impl ImportReservation {
    /// A reservation of events that were taken out of `refund_to` already.
    pub const fn new(project_id: ProjectId, events: u64, refund_to: Arc<AtomicU64>) -> Self {
        Self {
            project_id,
            events,
            refund_to,
        }
    }
}

impl Drop for ImportReservation {
    fn drop(&mut self) {
        if self.events > 0 {
            self.refund_to.fetch_add(self.events, Ordering::AcqRel);
        }
    }
}

// === impl ImportCounter ===

impl ImportCounter {
    /// A counter at zero, for a log that ends at `position`.
    pub(crate) fn from(position: Position) -> Self {
        Self(Arc::new(Mutex::new(ImportCount {
            counted_to: position,
            events: BTreeMap::new(),
        })))
    }

    /// Counts the events that were stored with a group that ends at `position`.
    pub(crate) fn count(
        &self,
        position: Position,
        reservations: impl Iterator<Item = ImportReservation>,
    ) {
        let mut count = self.lock();
        count.counted_to = position;
        for mut reservation in reservations {
            let events = std::mem::take(&mut reservation.events);
            *count.events.entry(reservation.project_id).or_default() += events;
        }
    }

    /// Events that were counted so far.
    pub(crate) fn so_far(&self) -> ImportCount {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, ImportCount> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
