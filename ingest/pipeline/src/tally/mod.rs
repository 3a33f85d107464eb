//! Counting the events of imports: when they are committed, and after a crash from the log.
//!
//! Who admits events gives an [`Admission`] along with the batch. The commit thread counts it when the
//! batch is on disk, before the request is answered, together with the position up to which it has
//! counted; if the batch is not stored, or its client went away before it was handed over, the events go
//! back. What was counted is said to the catalog now and then; until that has happened the log is kept
//! from there on ([`Pipeline::keep_historical_from`]), so that after a crash the log says what came
//! since ([`Pipeline::recount`]).

mod recount;

use crate::retention::Retention;
use crate::submit::Pipeline;
use millrace_log::{LogHandle, Position, ReadError, ReleaseError};
use millrace_rows::{Lane, TeamId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Events of a project that may be stored. Dropped, they go back to where they came from.
#[derive(Debug)]
#[must_use = "events that are dropped go back"]
pub struct Admission {
    team_id: TeamId,
    events: u64,
    back: Arc<AtomicU64>,
}

/// What was counted since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Everything below this position of the log of imports is counted.
    pub counted_to: Position,
    /// Events by project.
    pub events: BTreeMap<TeamId, u64>,
}

/// The tally of a lane, shared with its commit thread.
#[derive(Clone, Debug)]
pub(crate) struct SharedTally(Arc<Mutex<Tally>>);

// === impl Admission ===

impl Admission {
    /// Events that were taken out of `back` already.
    pub const fn new(team_id: TeamId, events: u64, back: Arc<AtomicU64>) -> Self {
        Self {
            team_id,
            events,
            back,
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if self.events > 0 {
            self.back.fetch_add(self.events, Ordering::AcqRel);
        }
    }
}

// === impl SharedTally ===

impl SharedTally {
    /// Nothing yet, in a log that ends here.
    pub(crate) fn from(position: Position) -> Self {
        Self(Arc::new(Mutex::new(Tally {
            counted_to: position,
            events: BTreeMap::new(),
        })))
    }

    /// Counts what was stored with a group that ends here.
    pub(crate) fn count(&self, position: Position, admissions: impl Iterator<Item = Admission>) {
        let mut tally = self.lock();
        tally.counted_to = position;
        for mut admission in admissions {
            let events = std::mem::take(&mut admission.events);
            *tally.events.entry(admission.team_id).or_default() += events;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Pipeline ===

impl Pipeline {
    /// What was counted since the start.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.0.input(Lane::Historical).tally.lock().clone()
    }

    /// The events that the log of imports has of earlier starts from a position on, by project.
    /// Blocks.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn recount(&self, from: Position) -> Result<BTreeMap<TeamId, u64>, ReadError> {
        recount::recount(&self.0.input(Lane::Historical).log, from)
    }

    /// Keeps the log of imports from here on, also what is shipped; what is below may go. Blocks.
    ///
    /// # Errors
    /// If a segment could not be taken away for good; the log is then poisoned.
    pub fn keep_historical_from(&self, position: Position) -> Result<(), ReleaseError> {
        let input = self.0.input(Lane::Historical);
        let (log, retention): (&LogHandle, &Retention) = (&input.log, &input.retention);
        retention.keep_from(log, position)
    }
}
