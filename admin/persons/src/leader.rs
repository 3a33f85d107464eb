//! Lease of the process that applies updates, renewed by a task of its own, so that a long round
//! never loses it.

use crate::metrics;
use millrace_catalog::Catalog;
use millrace_catalog::leases::PERSONS_LEASE;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

/// Renewals of a lease before it would lapse.
const RENEWALS_PER_LEASE: u32 = 4;

/// Lease of this process, and the task that renews it.
pub(crate) struct Leader {
    catalog: Catalog,
    holder: Uuid,
    leads: watch::Receiver<bool>,
    lapse_after: Duration,
    stop: CancellationToken,
    /// Task that renews the lease; it ends when this is dropped.
    task: AbortOnDropHandle<()>,
}

impl Leader {
    /// Starts to ask for the lease.
    pub(crate) fn start(catalog: Catalog, holder: Uuid, lapse_after: Duration) -> Self {
        let (leads_tx, leads) = watch::channel(false);
        let asking = catalog.clone();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            extend(&asking, holder, lapse_after, &leads_tx, &stopped).await;
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

    /// Returns true if this process holds the lease now.
    pub(crate) fn now(&self) -> bool {
        *self.leads.borrow()
    }

    /// Waits until the renewing task ends, which it does before [`Leader::end`] only by a panic.
    pub(crate) async fn failed(&self) {
        let mut leads = self.leads.clone();
        while leads.changed().await.is_ok() {}
    }

    /// Releases the lease.
    pub(crate) async fn end(mut self) {
        self.stop.cancel();
        // The task is not aborted in the middle of a transaction, as others go on with its
        // connection. After a wait for longer than the lease lasts there is nothing to release.
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
    leads: &watch::Sender<bool>,
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
        if leads.send_replace(is_leader) != is_leader {
            let no_more = if is_leader { "" } else { " no more" };
            tracing::info!("this process keeps persons up to date{no_more}");
        }
        metrics::leads(is_leader);
        tokio::select! {
            () = stopped.cancelled() => return,
            () = tokio::time::sleep(lapse_after / RENEWALS_PER_LEASE) => {}
        }
    }
}
