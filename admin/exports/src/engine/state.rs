//! State that the engine's tasks share.

use super::lost_queries::LostQueries;
use super::notices::Notices;
use super::options::EngineOptions;
use super::rare_log::RareLog;
use crate::destination::Destination;
use crate::error::ExportError;
use millrace_catalog::{BatchExport, Catalog, RunRoundRobin};
use millrace_clickhouse::ClickHouse;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

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
    /// Backfills for which it was logged that they cannot be planned now.
    pub(super) unplanned: Mutex<HashSet<Uuid>>,
    /// Errors of claims that were logged lately.
    pub(super) unclaimed: Mutex<RareLog>,
    /// Runs whose queries ClickHouse did not answer.
    pub(super) lost_queries: Mutex<LostQueries>,
    /// Stops runs, so that other processes claim them at once.
    pub(super) stopped: CancellationToken,
}

impl Inner {
    pub(super) fn round_robin(&self) -> MutexGuard<'_, RunRoundRobin> {
        self.round_robin
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn unclaimed(&self) -> MutexGuard<'_, RareLog> {
        self.unclaimed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lost_queries(&self) -> MutexGuard<'_, LostQueries> {
        self.lost_queries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn unplanned(&self) -> MutexGuard<'_, HashSet<Uuid>> {
        self.unplanned
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
