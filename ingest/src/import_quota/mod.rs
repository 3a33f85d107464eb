//! Import quota: how many events a project may import in all, and how fast.
//!
//! The catalog keeps each project's volume and the bucket of its rate. A node has a lease of both,
//! in events, and admits requests from it without asking: one atomic subtraction. A task
//! ([`LeaseRenewer`]) asks for more before a lease is used up, reports every second what was
//! counted, and gives back what is not used. Only a request that finds too few tokens waits for the
//! catalog, and briefly; requests that are no imports pass none of this.
//!
//! | Part | Kept by |
//! |---|---|
//! | volume and rate of each project | `historical_migrations` of the catalog, decided under a lock |
//! | events imported | the commit thread ([`millrace_pipeline::ImportCount`]); after a crash the log |
//! | tokens of this node | `ProjectTokens` |
//!
//! Promises: a request is admitted as a whole or not at all; tokens of events that are not stored
//! go back; no project gets more than its volume, on all nodes together, whoever crashes when;
//! tokens that a crash withheld are back when the node has started again.
//!
//! Where counting what an earlier start imported panics, it would do so at every start. Imports are
//! refused then, as more of them could not be counted either, and live events go on.

mod lease;
mod lease_renewer;
mod project_table;
mod project_tokens;
mod refusal;

#[cfg(test)]
mod tests;

pub use lease_renewer::RunningImportQuota;
pub(crate) use refusal::ImportRefusal;

use lease_renewer::{LeaseRenewer, Recount};
use millrace_catalog::Catalog;
use millrace_pipeline::{ImportReservation, Pipeline, Position};
use millrace_rows::{Clock, ProjectId};
use project_table::ProjectTable;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// Time that a request waits for the catalog.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Import quotas of all projects, as far as this node has leases of them. Clones share them.
#[derive(Clone, Debug)]
pub struct ImportQuota(Arc<ProjectTable>);

impl ImportQuota {
    /// Starts the lease renewer of a node, on the runtime of the caller, which is the catalog's. To
    /// be called before anything is shipped, as what is shipped may have to be counted yet.
    #[must_use]
    pub fn start(
        catalog: Catalog,
        pipeline: Pipeline,
        node: String,
        clock: Arc<dyn Clock>,
    ) -> (Self, RunningImportQuota) {
        Self::start_with(catalog, pipeline, node, clock, Pipeline::recount_imports)
    }

    /// Starts the lease renewer with the recount of a test.
    fn start_with(
        catalog: Catalog,
        pipeline: Pipeline,
        node: String,
        clock: Arc<dyn Clock>,
        recount: Recount,
    ) -> (Self, RunningImportQuota) {
        // Only what is below would be released.
        let _ = pipeline.keep_historical_from(Position::FIRST);
        let table = Arc::new(ProjectTable::new(clock));
        let (stop, stopped) = watch::channel(false);
        let lease_renewer = LeaseRenewer::new(Arc::clone(&table), catalog, pipeline, node, recount);
        let task = tokio::spawn(lease_renewer.run(stopped));
        (Self(table), RunningImportQuota::new(stop, task))
    }

    /// Reason why imports are refused until the next start, for people; `None` as a rule.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.0.stopped().map(str::to_owned)
    }

    /// Checks that imports can be counted.
    ///
    /// # Errors
    /// If they cannot be until the next start.
    pub(crate) fn check_counted(&self) -> Result<(), ImportRefusal> {
        match self.0.stopped() {
            Some(_) => Err(ImportRefusal::NotCounted),
            None => Ok(()),
        }
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
        self.check_counted()?;
        let project = self.0.project(project_id);
        if let Some(reservation) = project.take(events) {
            if project.needs_refill() {
                self.0.wake.notify_one();
            }
            return Ok(reservation);
        }
        if let Some(refusal) = project.refusal(events) {
            return Err(refusal);
        }
        let answer = project.wait(events)?;
        self.0.wake.notify_one();
        match timeout(WAIT_MAX, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(ImportRefusal::Unavailable),
        }
    }
}
