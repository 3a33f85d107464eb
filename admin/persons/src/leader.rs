//! The lease of whoever works, extended by a task of its own, so that a long round never loses it.

use crate::metrics;
use millrace_catalog::Catalog;
use millrace_catalog::leases::PERSONS_LEASE;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

/// How many times a lease is extended before it would lapse.
const EXTENDED_TIMES: u32 = 4;

/// Whether this process leads.
pub(crate) struct Leader {
    catalog: Catalog,
    holder: Uuid,
    leads: Arc<AtomicBool>,
    lapse_after: Duration,
    stop: CancellationToken,
    /// Ends with this.
    task: AbortOnDropHandle<()>,
}

impl Leader {
    /// Begins to ask for the lease.
    pub(crate) fn start(catalog: Catalog, holder: Uuid, lapse_after: Duration) -> Self {
        let leads = Arc::new(AtomicBool::new(false));
        let (asking, told) = (catalog.clone(), Arc::clone(&leads));
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            extend(&asking, holder, lapse_after, &told, &stopped).await;
        });
        Self {
            catalog,
            holder,
            leads,
            lapse_after,
            stop,
            task: AbortOnDropHandle::new(task),
        }
    }

    /// Whether it leads at this moment.
    pub(crate) fn now(&self) -> bool {
        self.leads.load(Ordering::Acquire)
    }

    /// Gives the lease back.
    pub(crate) async fn end(mut self) {
        self.stop.cancel();
        // Not in the middle of a transaction, whose connection others go on with. Whoever waits for
        // longer than the lease lasts has nothing to give back.
        let ended = tokio::time::timeout(self.lapse_after, &mut self.task).await;
        if ended.is_err() || !self.now() {
            return;
        }
        let released = self.catalog.release_lease(PERSONS_LEASE, self.holder).await;
        if let Err(error) = released {
            tracing::warn!(%error, "the lease of persons was not given back; it lapses");
        }
    }
}

async fn extend(
    catalog: &Catalog,
    holder: Uuid,
    lapse_after: Duration,
    leads: &AtomicBool,
    stopped: &CancellationToken,
) {
    let mut held_until = Instant::now();
    loop {
        let asked = Instant::now();
        match catalog.hold_lease(PERSONS_LEASE, holder, lapse_after).await {
            Ok(true) => held_until = asked + lapse_after,
            Ok(false) => held_until = asked,
            Err(error) => {
                tracing::warn!(%error, "the lease of persons cannot be extended; trying again");
            }
        }
        let is_leader = Instant::now() < held_until;
        if leads.swap(is_leader, Ordering::AcqRel) != is_leader {
            tracing::info!(is_leader, "persons");
        }
        metrics::leads(is_leader);
        tokio::select! {
            () = stopped.cancelled() => return,
            () = tokio::time::sleep(lapse_after / EXTENDED_TIMES) => {}
        }
    }
}
