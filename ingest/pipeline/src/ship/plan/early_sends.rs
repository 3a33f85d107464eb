//! Rate limit of batches that send rows of older months early.

use crate::ship::limits::Limits;
use std::time::Duration;

/// Token bucket of batches of older months that are sent early: it holds [`Limits::early_max`]
/// tokens, and one comes back every [`Limits::early_every`].
#[derive(Debug, Default)]
pub(super) struct EarlySends {
    /// Time at which the bucket is full again.
    full_at: Duration,
}

impl EarlySends {
    /// Time at which the next batch may be sent early.
    pub(super) fn free_at(&self, limits: &Limits) -> Duration {
        let others = limits.early_max.saturating_sub(1);
        self.full_at.saturating_sub(limits.early_every * others)
    }

    /// Takes a token for a batch that is sent now.
    pub(super) fn spend(&mut self, limits: &Limits, now: Duration) {
        self.full_at = self.full_at.max(now) + limits.early_every;
    }
}
