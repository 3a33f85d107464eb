//! Counts the events of imports when they are committed.
//!
//! Events that were admitted come with an [`ImportReservation`] along with the batch. The commit
//! thread counts it when the batch is on disk, before the request is answered; if the batch is not
//! stored, or its client went away before it was handed over, the reservation is refunded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tokens of a project, one for each event that may be imported, and the events that were.
#[derive(Debug, Default)]
pub struct ImportTokens {
    available: AtomicU64,
    counted: AtomicU64,
}

/// Reservation of events that may be stored. Dropping it refunds them.
#[derive(Debug)]
#[must_use = "a reservation that is dropped is refunded"]
pub struct ImportReservation {
    events: u64,
    tokens: Arc<ImportTokens>,
}

// === impl ImportTokens ===

impl ImportTokens {
    /// Events that may be reserved.
    pub fn available(&self) -> u64 {
        self.available.load(Ordering::Acquire)
    }

    /// Events that were stored.
    pub fn counted(&self) -> u64 {
        self.counted.load(Ordering::Acquire)
    }

    /// Adds tokens for events.
    pub fn add(&self, events: u64) {
        self.available.fetch_add(events, Ordering::AcqRel);
    }

    /// Withdraws at most so many tokens, and returns how many there were.
    pub fn withdraw(&self, events_max: u64) -> u64 {
        let taken = self
            .available
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |there| {
                Some(there.saturating_sub(events_max))
            });
        taken.unwrap_or_default().min(events_max)
    }

    /// Reserves all of the events, or none.
    pub fn reserve(self: &Arc<Self>, events: u64) -> Option<ImportReservation> {
        let taken = self
            .available
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |there| {
                there.checked_sub(events)
            });
        taken.is_ok().then(|| ImportReservation {
            events,
            tokens: Arc::clone(self),
        })
    }
}

// === impl ImportReservation ===

impl ImportReservation {
    /// Counts the events, which were stored.
    pub(crate) fn count(mut self) {
        let events = std::mem::take(&mut self.events);
        self.tokens.counted.fetch_add(events, Ordering::AcqRel);
    }
}

impl Drop for ImportReservation {
    fn drop(&mut self) {
        if self.events > 0 {
            self.tokens.add(self.events);
        }
    }
}
