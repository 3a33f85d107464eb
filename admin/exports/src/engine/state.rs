//! State that the engine's tasks share.

use super::logins::ProjectLogins;
use super::lost_queries::LostQueries;
use super::notices::Notices;
use super::options::EngineOptions;
use crate::destination::Destination;
use crate::error::ExportError;
use crate::records::RunRoundRobin;
use millrace_catalog::{BatchExport, Catalog};
use millrace_clickhouse::ClickHouse;
use millrace_rows::RareLog;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Opens the destination of an export.
pub type OpenDestination =
    Arc<dyn Fn(&BatchExport) -> Result<Box<dyn Destination>, ExportError> + Send + Sync>;

/// State of an engine.
pub(super) struct Inner {
    pub(super) catalog: Catalog,
    pub(super) clickhouse: ClickHouse,
    pub(super) open: OpenDestination,
    pub(super) notices: Arc<dyn Notices>,
    pub(super) options: EngineOptions,
    /// Free slots for runs.
    pub(super) slots: Arc<Semaphore>,
    /// Turns of organizations: which had a run last, among those that wait.
    pub(super) round_robin: Mutex<RunRoundRobin>,
    /// Notified when a slot is free again, or a backfill has runs to claim.
    pub(super) freed: Notify,
    /// Notified when a run has ended: its backfill may need more runs.
    pub(super) ended: Notify,
    pub(super) tasks: TaskTracker,
    /// Failures that were logged lately.
    pub(super) failures: RareLog,
    /// Runs whose queries ClickHouse did not answer.
    pub(super) lost_queries: Mutex<LostQueries>,
    /// Logins for customers' queries; without them they run as the server's own user.
    pub(super) logins: OnceLock<Arc<dyn ProjectLogins>>,
    /// Stops runs, so that other processes claim them at once.
    pub(super) stopped: CancellationToken,
}

impl Inner {
    pub(super) fn round_robin(&self) -> MutexGuard<'_, RunRoundRobin> {
        self.round_robin
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if an error of some work, which is tried again, is to be logged now.
    pub(super) fn is_logged(&self, work: &str, error: &impl Display) -> bool {
        let failure = format!("{work}: {error}");
        self.failures.is_due(&failure, Instant::now())
    }

    pub(super) fn lost_queries(&self) -> MutexGuard<'_, LostQueries> {
        self.lost_queries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
