//! Import quota: how many events a project may import in all, and how fast.
//!
//! The catalog keeps each project's volume and the bucket of its rate. A node has a lease of both,
//! in events, and admits requests from it without asking: one atomic subtraction. Every second, and
//! when a lease is nearly used up, a node reports what was counted and is leased more; what it does
//! not use goes back. Only a request that finds too few tokens waits for the catalog, and briefly;
//! requests that are no imports pass none of this.
//!
//! | Part | Kept by |
//! |---|---|
//! | volume, rate and leases of each project | rows of the catalog, under a lock (`quotas`) |
//! | tokens of this node, and events imported | [`millrace_pipeline::ImportTokens`] |
//! | requests that wait | the lock of the project's lease, where they queue up |
//!
//! Promises: a request is admitted as a whole or not at all; tokens of events that are not stored
//! go back; no project gets more than its volume, on all nodes together, whoever crashes when. A
//! lease belongs to one start of a node and expires: a crash forfeits what is left of it, and
//! events that were counted and not reported are in no count.

mod lease;
mod project;
mod quotas;
mod refusal;
mod renewer;

#[cfg(test)]
mod tests;

pub(crate) use refusal::ImportRefusal;
pub use renewer::RunningImportQuota;

use millrace_catalog::Catalog;
use millrace_pipeline::ImportReservation;
use millrace_rows::{Clock, ProjectId};
use renewer::LeaseRenewer;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Time that a request waits for the catalog.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Import quotas of all projects, as far as this node has leases of them. Clones share them.
#[derive(Clone, Debug)]
pub struct ImportQuota(Arc<LeaseRenewer>);

impl ImportQuota {
    /// Starts the lease renewer of a node, on the runtime of the caller, which is the catalog's.
    #[must_use]
    pub fn start(
        catalog: Catalog,
        node: String,
        clock: Arc<dyn Clock>,
    ) -> (Self, RunningImportQuota) {
        let (renewer, running) = LeaseRenewer::start(catalog, node, clock);
        (Self(renewer), running)
    }

    /// Admits all of a project's events, or none.
    ///
    /// # Errors
    /// The reason of the refusal, and when to try again.
    pub(crate) async fn admit(
        &self,
        project_id: ProjectId,
        events: u64,
    ) -> Result<ImportReservation, ImportRefusal> {
        let leased = self.0.project(project_id);
        let project = &leased.project;
        if let Some(reservation) = project.reserve(events) {
            if project.needs_refill() {
                self.0.refill_soon();
            }
            return Ok(reservation);
        }
        if let Some(refusal) = project.refusal(events) {
            return Err(refusal);
        }
        let admitted = self.0.spawn_admit(Arc::clone(&leased), events)?;
        match timeout(WAIT_MAX, admitted).await {
            Ok(Ok(answer)) => answer,
            // Reported as a panic of the request.
            Ok(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
            Ok(Err(_)) | Err(_) => Err(ImportRefusal::Unavailable),
        }
    }
}
