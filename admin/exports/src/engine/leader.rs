//! The lease of whoever leads, extended by a task of its own, so that a slow plan never loses it.

use super::Inner;
use millrace_catalog::leases::EXPORTS_LEASE;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

/// How many times a lease is extended before it would lapse.
const EXTENDED_TIMES: u32 = 4;

/// Whether this process leads.
pub(super) struct Leader {
    /// Until when the lease is ours, as far as we know.
    held_until: watch::Receiver<Instant>,
    /// Ends with this.
    task: AbortOnDropHandle<()>,
}

impl Leader {
    /// Begins to ask for the lease.
    pub(super) fn start(inner: &Arc<Inner>, holder: Uuid) -> Self {
        let (told, held_until) = watch::channel(Instant::now());
        let inner = Arc::clone(inner);
        let task = tokio::spawn(async move { extend(&inner, holder, &told).await });
        Self {
            held_until,
            task: AbortOnDropHandle::new(task),
        }
    }

    /// Whether it leads at this moment; no more once the lease may have lapsed, though a catalog that
    /// hangs tells nobody so.
    pub(super) fn now(&self) -> bool {
        Instant::now() < *self.held_until.borrow()
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

async fn extend(inner: &Inner, holder: Uuid, held_until: &watch::Sender<Instant>) {
    let time = inner.options.lapse_after;
    let mut was_leader = false;
    loop {
        let asked = Instant::now();
        let held = inner.catalog.hold_lease(EXPORTS_LEASE, holder, time).await;
        match held {
            Ok(true) => held_until.send_replace(asked + time),
            Ok(false) => held_until.send_replace(asked),
            Err(error) => {
                tracing::warn!(%error, "the lease of exports cannot be extended; trying again");
                *held_until.borrow()
            }
        };
        let is_leader = Instant::now() < *held_until.borrow();
        if is_leader != was_leader {
            tracing::info!(is_leader, "exports");
            was_leader = is_leader;
        }
        tokio::time::sleep(time / EXTENDED_TIMES).await;
    }
}
