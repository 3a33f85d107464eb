//! Tokens of a project that imports on this node, and the catalog's latest answer.

use super::refusal::{CatalogDecision, ImportRefusal};
use millrace_pipeline::{ImportReservation, ImportTokens};
use millrace_rows::{Clock, ProjectId};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Project that imported something since the start.
pub struct Project {
    pub id: ProjectId,
    pub tokens: Arc<ImportTokens>,
    /// Number of tokens below which more is asked for.
    refill_level: AtomicU64,
    /// True once the lease renewer was woken for a refill, until it has asked for one.
    is_refill_requested: AtomicBool,
    /// True if events were reserved since the lease renewer last looked.
    is_used: AtomicBool,
    clock: Arc<dyn Clock>,
    /// Time at which tokens were last taken to be used, by `clock`.
    used_at: AtomicI64,
    latest: Mutex<Option<CatalogDecision>>,
}

impl fmt::Debug for Project {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Project")
            .field("id", &self.id)
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

impl Project {
    /// Returns a project without tokens.
    pub fn new(id: ProjectId, clock: Arc<dyn Clock>) -> Self {
        Self {
            id,
            tokens: Arc::default(),
            refill_level: AtomicU64::default(),
            is_refill_requested: AtomicBool::default(),
            is_used: AtomicBool::default(),
            used_at: AtomicI64::new(clock.now().0),
            clock,
            latest: Mutex::default(),
        }
    }

    /// Reserves tokens for all of the events, or none.
    pub fn reserve(&self, events: u64) -> Option<ImportReservation> {
        let reservation = self.tokens.reserve(events)?;
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
        self.used_at.store(self.clock.now().0, Ordering::Release);
        Some(reservation)
    }

    /// Returns true if it is time for a refill: once, until the catalog was asked for one.
    pub fn needs_refill(&self) -> bool {
        self.tokens.available() < self.refill_level.load(Ordering::Relaxed)
            && !self.is_refill_requested.swap(true, Ordering::Relaxed)
    }

    /// Returns true while a refill is waited for.
    pub fn waits_for_refill(&self) -> bool {
        self.is_refill_requested.load(Ordering::Relaxed)
    }

    /// Sets the number of tokens below which more is asked for, and notes that the last refill was
    /// asked for.
    pub fn set_refill_level(&self, level: u64) {
        self.refill_level.store(level, Ordering::Relaxed);
        self.is_refill_requested.store(false, Ordering::Relaxed);
    }

    /// Time since tokens were last taken to be used, in microseconds. To be read after the count
    /// of stored events.
    pub fn unused_micros(&self) -> i64 {
        let used_at = self.used_at.load(Ordering::Acquire);
        self.clock.now().0.saturating_sub(used_at)
    }

    /// Returns true if events were reserved since the last call.
    pub fn was_used(&self) -> bool {
        self.is_used.swap(false, Ordering::Relaxed)
    }

    /// Notes an answer of the catalog.
    pub fn note(&self, decision: CatalogDecision) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(decision);
    }

    /// Refusal that the catalog's latest answer implies for these events, while it is fresh.
    pub fn refusal(&self, events: u64) -> Option<ImportRefusal> {
        let latest = *self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = latest.filter(CatalogDecision::is_fresh)?;
        latest.refusal(events, self.tokens.available())
    }
}
