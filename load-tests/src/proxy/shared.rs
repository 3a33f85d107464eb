//! State that the proxy's tasks share.

use super::fault::{Fault, Rule};
use super::recording::Recording;
use super::stale::StaleAnswers;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// State that the proxy's tasks share.
#[derive(Debug)]
pub(super) struct Shared {
    /// Authority of ClickHouse, `host:port`.
    pub(super) upstream: Mutex<String>,
    pub(super) rule: watch::Sender<Option<Arc<Active>>>,
    pub(super) recording: Mutex<Option<Recording>>,
    /// Answers to repeat, since the rule in force was set.
    pub(super) stale_answers: StaleAnswers,
    pub(super) connections: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) inserts: AtomicU64,
    pub(super) faults: AtomicU64,
}

/// A rule in force.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) rule: Rule,
    /// Number of requests that it covered so far.
    pub(super) covered: AtomicU64,
}

impl Shared {
    pub(super) fn upstream(&self) -> MutexGuard<'_, String> {
        self.upstream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn recording(&self) -> MutexGuard<'_, Option<Recording>> {
        self.recording
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request with this query string and returns the fault to do to it.
    pub(super) fn fault(&self, query: &str, is_insert: bool) -> Option<Fault> {
        self.requests.fetch_add(1, Ordering::AcqRel);
        if is_insert {
            self.inserts.fetch_add(1, Ordering::AcqRel);
        }
        let active = self.rule.borrow().clone()?;
        if !active.rule.covers(query, is_insert) {
            return None;
        }
        let number = active.covered.fetch_add(1, Ordering::AcqRel);
        number
            .is_multiple_of(active.rule.every)
            .then(|| active.rule.fault.clone())
    }

    pub(super) fn is_down(rule: Option<&Active>) -> bool {
        rule.is_some_and(|active| active.rule.fault == Fault::Down)
    }
}
