//! The lease of whoever leads, extended by a task of its own, so that a slow plan never loses it.

use super::{Inner, metrics};
use millrace_catalog::leases::EXPORTS_LEASE;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

/// How many times a lease is extended before it would lapse.
const EXTENDED_TIMES: u32 = 4;

/// Whether this process leads.
pub(super) struct Leader {
    leads: Arc<AtomicBool>,
    /// Ends with this.
    task: AbortOnDropHandle<()>,
}

impl Leader {
    /// Begins to ask for the lease.
    pub(super) fn start(inner: &Arc<Inner>, holder: Uuid) -> Self {
        let leads = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&leads);
        let inner = Arc::clone(inner);
        let task = tokio::spawn(async move { extend(&inner, holder, &told).await });
        Self {
            leads,
            task: AbortOnDropHandle::new(task),
        }
    }

    /// Whether it leads at this moment.
    pub(super) fn now(&self) -> bool {
        self.leads.load(Ordering::Acquire)
    }

    /// Gives the lease back.
    pub(super) async fn end(self, inner: &Inner, holder: Uuid) {
        self.task.abort();
        if !self.now() {
            return;
        }
        let released = inner.catalog.release_lease(EXPORTS_LEASE, holder).await;
        if let Err(error) = released {
            tracing::warn!(%error, "the lease of exports was not given back; it lapses");
        }
    }
}

async fn extend(inner: &Inner, holder: Uuid, leads: &AtomicBool) {
    let time = inner.options.lapse_after;
    let mut held_until = Instant::now();
    loop {
        let asked = Instant::now();
        let held = inner.catalog.hold_lease(EXPORTS_LEASE, holder, time).await;
        match held {
            Ok(true) => held_until = asked + time,
            Ok(false) => held_until = asked,
            Err(error) => {
                tracing::warn!(%error, "the lease of exports cannot be extended; trying again");
            }
        }
        let is_leader = Instant::now() < held_until;
        if leads.swap(is_leader, Ordering::AcqRel) != is_leader {
            tracing::info!(is_leader, "exports");
        }
        metrics::leads(is_leader);
        tokio::time::sleep(time / EXTENDED_TIMES).await;
    }
}
