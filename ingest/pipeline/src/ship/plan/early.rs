//! How often rows of older months may go before their time.

use crate::ship::limits::Limits;
use std::time::Duration;

/// Counts inserts of older months that were sent early: a bucket of [`Limits::early_max`], of
/// which one comes back every [`Limits::early_every`].
#[derive(Debug, Default)]
pub(super) struct Early {
    /// When the bucket is full again.
    full_at: Duration,
}

impl Early {
    /// When the next one may be sent.
    pub(super) fn free_at(&self, limits: &Limits) -> Duration {
        let others = limits.early_max.saturating_sub(1);
        self.full_at.saturating_sub(limits.early_every * others)
    }

    /// One is sent.
    pub(super) fn spend(&mut self, limits: &Limits, now: Duration) {
        self.full_at = self.full_at.max(now) + limits.early_every;
    }
}
