//! Lease of the process that leads, renewed by a task of its own, so that slow planning never loses
//! it. An engine that is stopped asks for it no more, and releases it at once.

use super::metrics;
use super::state::Inner;
use futures_util::FutureExt;
use millrace_catalog::leases::EXPORTS_LEASE;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

/// Lease of this process, and the task that renews it.
pub(super) struct Leader {
    /// Time until which this process holds the lease, as far as it knows.
    held_until: watch::Receiver<Instant>,
    /// Notified when this process begins to lead.
    begun: Arc<Notify>,
    /// Notified when this process gives the lease up.
    resigned: Arc<Notify>,
    /// Task that renews the lease; it ends when this is dropped.
    task: AbortOnDropHandle<()>,
}

impl Leader {
    /// Starts to ask for the lease.
    pub(super) fn start(inner: &Arc<Inner>, holder: Uuid) -> Self {
        let (held_tx, held_until) = watch::channel(Instant::now());
        let (begun, resigned) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let renewer = LeaseRenewer {
            inner: Arc::clone(inner),
            holder,
            held_until: held_tx,
            begins: Arc::clone(&begun),
            resigned: Arc::clone(&resigned),
        };
        let task = tokio::spawn(renewer.run());
        Self {
            held_until,
            begun,
            resigned,
            task: AbortOnDropHandle::new(task),
        }
    }

    /// Returns true if this process leads now. It is false once the lease may have lapsed, even if
    /// a catalog that hangs does not say so.
    pub(super) fn now(&self) -> bool {
        Instant::now() < *self.held_until.borrow()
    }

    /// Waits until this process begins to lead.
    pub(super) async fn begins(&self) {
        self.begun.notified().await;
    }

    /// Gives the lease up, since what this process leads with hangs: otherwise its lease would be
    /// renewed, by another connection of the catalog, and no process would lead. Another process
    /// may lead from now on; this one asks again once its lease would have lapsed.
    pub(super) fn resign(&self) {
        self.resigned.notify_one();
    }

    /// Waits until the renewing task ends, which it does before [`Leader::end`] only by a panic.
    pub(super) async fn failed(&self) {
        let mut held_until = self.held_until.clone();
        while held_until.changed().await.is_ok() {}
    }

    /// Releases the lease, if this process holds it. The engine is stopped.
    pub(super) async fn end(mut self, inner: &Inner, holder: Uuid) {
        // The task is not aborted while it asks: the catalog could grant the lease after it was
        // released. It waits for one answer, or gives the lease up and is done as soon.
        let _ = timeout(inner.options.ask_timeout, &mut self.task).await;
        metrics::leads(false);
        if self.now() {
            release(inner, holder).await;
        }
    }
}

async fn release(inner: &Inner, holder: Uuid) {
    let released = inner.catalog.release_lease(EXPORTS_LEASE, holder);
    match timeout(inner.options.ask_timeout, released).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(%error, "the lease of exports was not given back; it lapses");
        }
        Err(_) => tracing::warn!("the lease of exports is not given back in time; it lapses"),
    }
}

/// Task that renews the lease.
struct LeaseRenewer {
    inner: Arc<Inner>,
    holder: Uuid,
    held_until: watch::Sender<Instant>,
    begins: Arc<Notify>,
    resigned: Arc<Notify>,
}

impl LeaseRenewer {
    async fn run(self) {
        let (options, stopped) = (&self.inner.options, &self.inner.stopped);
        let mut was_leader = false;
        while !stopped.is_cancelled() {
            self.renew().await;
            if stopped.is_cancelled() {
                return;
            }
            let is_leader = Instant::now() < *self.held_until.borrow();
            if is_leader != was_leader {
                let no_longer = if is_leader { "" } else { "no longer " };
                tracing::info!("this process {no_longer}plans batch exports");
                was_leader = is_leader;
                if is_leader {
                    self.begins.notify_one();
                }
            }
            tokio::select! {
                () = stopped.cancelled() => return,
                () = tokio::time::sleep(options.ask_every) => {}
                () = self.resigned.notified() => {
                    tracing::error!("this process gives up planning batch exports for a time, as the catalog does not answer");
                    self.held_until.send_replace(Instant::now());
                    was_leader = false;
                    release(&self.inner, self.holder).await;
                    stopped.run_until_cancelled(tokio::time::sleep(options.lapse_after)).await;
                    // Another task may have resigned meanwhile, from the lease that is given up.
                    let _ = self.resigned.notified().now_or_never();
                }
            }
        }
    }

    /// Asks for the lease, or for more of it.
    async fn renew(&self) {
        let (inner, held_until) = (&self.inner, &self.held_until);
        let (time, limit) = (inner.options.lapse_after, inner.options.ask_timeout);
        let asked = Instant::now();
        let held = inner.catalog.hold_lease(EXPORTS_LEASE, self.holder, time);
        match timeout(limit, held).await {
            Ok(Ok(true)) => {
                held_until.send_replace(asked + time);
            }
            Ok(Ok(false)) => {
                held_until.send_replace(asked);
            }
            // The lease may be held all the same: then the next answer says so.
            Err(slow) => {
                if inner.is_logged("lease", &slow) {
                    tracing::warn!(
                        "the catalog is slow to answer who has the lease of exports; asking again"
                    );
                }
            }
            Ok(Err(error)) => {
                if inner.is_logged("lease", &error) {
                    tracing::warn!(%error, "the lease of exports cannot be extended; trying again");
                }
            }
        }
    }
}
