//! Request to end a run early.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Request to end a run early; requests in flight are awaited and counted. Clones belong to the
/// same run.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<OnceLock<Instant>>);

impl Stop {
    /// Asks the run to end; asking again changes nothing.
    pub fn ask(&self) {
        self.0.get_or_init(Instant::now);
    }

    /// Returns true if the run was asked to end.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.asked_at().is_some()
    }

    /// Time when the run was asked to end.
    #[must_use]
    pub fn asked_at(&self) -> Option<Instant> {
        self.0.get().copied()
    }
}
