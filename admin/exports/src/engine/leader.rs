//! Lease of the process that leads, renewed by a task of its own, so that slow planning never loses
//! it.

use super::state::Inner;
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
    /// Task that renews the lease; it ends when this is dropped.
    task: AbortOnDropHandle<()>,
}

impl Leader {
    /// Starts to ask for the lease.
    pub(super) fn start(inner: &Arc<Inner>, holder: Uuid) -> Self {
        let (held_tx, held_until) = watch::channel(Instant::now());
        let begun = Arc::new(Notify::new());
        let (inner, begins) = (Arc::clone(inner), Arc::clone(&begun));
        let task = tokio::spawn(async move { extend(&inner, holder, &held_tx, &begins).await });
        Self {
            held_until,
            begun,
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

    /// Waits until the renewing task ends, which it does before [`Leader::end`] only by a panic.
    pub(super) async fn failed(&self) {
        let mut held_until = self.held_until.clone();
        while held_until.changed().await.is_ok() {}
    }

    /// Releases the lease.
    pub(super) async fn end(self, inner: &Inner, holder: Uuid) {
        self.task.abort();
        if !self.now() {
            return;
        }
        let released = inner.catalog.release_lease(EXPORTS_LEASE, holder);
        match timeout(inner.options.ask_timeout, released).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the lease of exports was not given back; it lapses");
            }
            Err(_) => tracing::warn!("the lease of exports is not given back in time; it lapses"),
        }
    }
}

async fn extend(inner: &Inner, holder: Uuid, held_until: &watch::Sender<Instant>, begins: &Notify) {
    let (time, limit) = (inner.options.lapse_after, inner.options.ask_timeout);
    let mut was_leader = false;
    loop {
        let asked = Instant::now();
        let held = inner.catalog.hold_lease(EXPORTS_LEASE, holder, time);
        match timeout(limit, held).await {
            Ok(Ok(true)) => held_until.send_replace(asked + time),
            Ok(Ok(false)) => held_until.send_replace(asked),
            Err(_) => {
                // The lease may be held all the same: then the next answer says so.
                tracing::warn!("the catalog is slow to say who exports; asking again");
                *held_until.borrow()
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "the lease of exports cannot be extended; trying again");
                *held_until.borrow()
            }
        };
        let is_leader = Instant::now() < *held_until.borrow();
        if is_leader != was_leader {
            let no_more = if is_leader { "" } else { " no more" };
            tracing::info!("this process plans batch exports{no_more}");
            was_leader = is_leader;
            if is_leader {
                begins.notify_one();
            }
        }
        tokio::time::sleep(inner.options.ask_every).await;
    }
}
