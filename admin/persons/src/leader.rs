//! Lease of the process that applies updates, renewed by a task of its own, so that a long round
//! never loses it.

use crate::metrics;
use millrace_catalog::Catalog;
use millrace_catalog::leases::PERSONS_LEASE;
use millrace_rows::RareLog;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
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
    /// Notified when this process gives the lease up.
    resigned: Arc<Notify>,
    /// Task that renews the lease; it ends when this is dropped.
    task: AbortOnDropHandle<()>,
}

impl Leader {
    /// Starts to ask for the lease.
    pub(crate) fn start(catalog: Catalog, holder: Uuid, lapse_after: Duration) -> Self {
        let (leads_tx, leads) = watch::channel(false);
        let stop = CancellationToken::new();
        let resigned = Arc::new(Notify::new());
        let renewer = LeaseRenewer {
            catalog: catalog.clone(),
            holder,
            lapse_after,
            leads: leads_tx,
            stopped: stop.clone(),
            resigned: Arc::clone(&resigned),
            failures: RareLog::default(),
        };
        let task = tokio::spawn(renewer.run());
        Self {
            catalog,
            holder,
            leads,
            lapse_after,
            stop,
            resigned,
            task: AbortOnDropHandle::new(task),
        }
    }

    /// Returns true if this process holds the lease now.
    pub(crate) fn now(&self) -> bool {
        *self.leads.borrow()
    }

    /// Gives the lease up, since a round hangs: otherwise its lease would be renewed, by another
    /// connection of the catalog, and no process would apply updates. Another process may lead from
    /// now on; this one asks again once its lease would have lapsed.
    pub(crate) fn resign(&self) {
        self.resigned.notify_one();
    }

    /// Waits until the renewing task ends, which it does before [`Leader::end`] only by a panic.
    pub(crate) async fn failed(&self) {
        let mut leads = self.leads.clone();
        while leads.changed().await.is_ok() {}
    }

    /// Asks for the lease no more, and releases it.
    pub(crate) async fn end(mut self) {
        self.stop.cancel();
        // The task is not aborted in the middle of a transaction, as others go on with its
        // connection. After a wait for longer than the lease lasts there is nothing to release.
        let ended = timeout(self.lapse_after, &mut self.task).await;
        metrics::leads(false);
        if ended.is_err() || !self.now() {
            return;
        }
        release(&self.catalog, self.holder, self.lapse_after).await;
    }
}

async fn release(catalog: &Catalog, holder: Uuid, time_max: Duration) {
    let released = catalog.release_lease(PERSONS_LEASE, holder);
    match timeout(time_max, released).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(%error, "the lease of persons was not given back; it lapses");
        }
        Err(_) => tracing::warn!("the lease of persons is not given back in time; it lapses"),
    }
}

/// Task that renews the lease.
struct LeaseRenewer {
    catalog: Catalog,
    holder: Uuid,
    lapse_after: Duration,
    leads: watch::Sender<bool>,
    stopped: CancellationToken,
    resigned: Arc<Notify>,
    /// Failures that were logged lately.
    failures: RareLog,
}

impl LeaseRenewer {
    async fn run(self) {
        let mut held_until = Instant::now();
        while !self.stopped.is_cancelled() {
            let asked = Instant::now();
            let held = self
                .catalog
                .hold_lease(PERSONS_LEASE, self.holder, self.lapse_after);
            match timeout(self.lapse_after, held).await {
                Ok(Ok(true)) => held_until = asked + self.lapse_after,
                Ok(Ok(false)) => held_until = asked,
                Ok(Err(error)) => {
                    if self.failures.is_due(&error.to_string(), Instant::now()) {
                        tracing::warn!(%error, "the lease of persons cannot be extended; trying again");
                    }
                }
                Err(slow) => {
                    if self.failures.is_due(&slow.to_string(), Instant::now()) {
                        tracing::warn!(
                            "the catalog is slow to answer who has the lease of persons; asking again"
                        );
                    }
                }
            }
            let is_leader = Instant::now() < held_until;
            if self.stopped.is_cancelled() {
                // Granted or not, it is not led any more: the lease is only to be released.
                self.leads.send_replace(is_leader);
                return;
            }
            self.set_leader(is_leader);
            tokio::select! {
                () = self.stopped.cancelled() => return,
                () = self.resigned.notified() => {
                    tracing::error!("this process gives up the lease of persons for a time, as a round does not end");
                    held_until = Instant::now();
                    self.set_leader(false);
                    release(&self.catalog, self.holder, self.lapse_after).await;
                    tokio::select! {
                        () = self.stopped.cancelled() => return,
                        () = tokio::time::sleep(self.lapse_after) => {}
                    }
                }
                () = tokio::time::sleep(self.lapse_after / RENEWALS_PER_LEASE) => {}
            }
        }
    }

    fn set_leader(&self, is_leader: bool) {
        if self.leads.send_replace(is_leader) != is_leader {
            let no_longer = if is_leader { "" } else { "no longer " };
            tracing::info!("this process {no_longer}keeps persons up to date");
        }
        metrics::leads(is_leader);
    }
}
