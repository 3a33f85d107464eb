//! Renews the quota leases of a node with the catalog: every second, and for requests that wait.

mod batch;

use super::lease::{Cause, QuotaLease};
use super::project::Project;
use super::quotas::{ImportQuotas, LeaseDecision, LeaseReport};
use super::refusal::{CatalogDecision, ImportRefusal};
use crate::metrics;
use millrace_catalog::{Catalog, CatalogError, ChangeError};
use millrace_pipeline::ImportReservation;
use millrace_pipeline::panic_point::{PanicPoint, pass};
use millrace_rows::{Clock, ProjectId, RareLog};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{Mutex, Notify, OnceCell, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, timeout, timeout_at};
use uuid::Uuid;

/// Interval in which the catalog is told what was counted.
const TICK_EVERY: Duration = Duration::from_secs(1);
/// Time that the catalog may take.
const CATALOG_TIMEOUT: Duration = Duration::from_secs(3);
/// Time that the catalog may take when the process is about to end.
const CLOSE_GRACE: Duration = Duration::from_secs(2);
/// Calls to the catalog at a time; it has connections for other work as well.
const CALLS_MAX: usize = 4;
/// Requests of one project that wait for the catalog at a time.
const WAITERS_MAX: usize = 1_024;

/// Handle to the lease renewer while it runs.
#[derive(Debug)]
pub struct RunningImportQuota {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl RunningImportQuota {
    /// Longest time of a stop: two questions to the catalog may be under way, before it is told the
    /// last counts.
    pub const STOP_TIME_MAX: Duration = CATALOG_TIMEOUT
        .saturating_mul(2)
        .saturating_add(CLOSE_GRACE);

    /// Waits until the lease renewer fails, after which no import is counted any more. Not to be
    /// called again after that.
    pub async fn failed(&mut self) -> String {
        match (&mut self.task).await {
            Err(error) => format!("imports are no longer counted: {error}"),
            Ok(()) => "imports are no longer counted".to_owned(),
        }
    }

    /// Reports the last events that were counted, and gives the leases back. To be called when no
    /// request is under way any more and all commits have ended.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        if self.task.await.is_err() {
            tracing::error!("the lease renewer of imports panicked");
        }
    }

    /// Ends without a report, as a killed process does.
    #[cfg(test)]
    pub(super) async fn abort(self) {
        self.task.abort();
        assert!(self.task.await.is_err());
    }
}

/// Project with its lease.
#[derive(Debug)]
pub struct LeasedProject {
    pub project: Project,
    /// Locked while the catalog is asked, so that requests queue up.
    pub lease: Arc<Mutex<QuotaLease>>,
    /// Permits to wait for the catalog.
    waiters: Arc<Semaphore>,
}

/// Reason why the catalog did not answer.
#[derive(Debug, thiserror::Error)]
enum AskError {
    /// It answers nothing at the moment.
    #[error("{0}")]
    Unavailable(String),
    /// It failed, maybe because of one project.
    #[error("{0}")]
    Failed(String),
}

impl From<ChangeError> for AskError {
    fn from(error: ChangeError) -> Self {
        let reason = error.to_string();
        match error {
            ChangeError::Catalog(
                CatalogError::Unreachable { .. }
                | CatalogError::Locked { .. }
                | CatalogError::Full { .. },
            ) => Self::Unavailable(reason),
            _ => Self::Failed(reason),
        }
    }
}

/// Lease renewer of this node, with the projects that imported something since the start.
pub struct LeaseRenewer {
    catalog: Catalog,
    node: String,
    clock: Arc<dyn Clock>,
    /// Random id of this start, which holds the leases.
    holder: Uuid,
    /// Set once the catalog knows of this start.
    started: OnceCell<()>,
    calls: Semaphore,
    projects: RwLock<BTreeMap<ProjectId, Arc<LeasedProject>>>,
    /// Notified when a lease is nearly used up.
    refill: Notify,
    failures: RareLog,
    /// True if the catalog did not answer, since this was last reset.
    has_failed: AtomicBool,
    /// Set before the leases go back for good.
    is_stopping: AtomicBool,
}

impl fmt::Debug for LeaseRenewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseRenewer")
            .field("projects", &self.projects)
            .finish_non_exhaustive()
    }
}

// === impl LeaseRenewer ===

impl LeaseRenewer {
    /// Starts the renewer on the runtime of the caller, which is the catalog's.
    pub fn start(
        catalog: Catalog,
        node: String,
        clock: Arc<dyn Clock>,
    ) -> (Arc<Self>, RunningImportQuota) {
        let renewer = Arc::new(Self {
            catalog,
            node,
            clock,
            holder: Uuid::new_v4(),
            started: OnceCell::new(),
            calls: Semaphore::new(CALLS_MAX),
            projects: RwLock::default(),
            refill: Notify::default(),
            failures: RareLog::default(),
            has_failed: AtomicBool::default(),
            is_stopping: AtomicBool::default(),
        });
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(Arc::clone(&renewer).run(stopped));
        (renewer, RunningImportQuota { stop, task })
    }

    /// Finds or adds a project.
    pub fn project(&self, id: ProjectId) -> Arc<LeasedProject> {
        let known = self.projects.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(project) = known.get(&id) {
            return Arc::clone(project);
        }
        drop(known);
        let projects = self.projects.write();
        let mut projects = projects.unwrap_or_else(PoisonError::into_inner);
        let new = || {
            Arc::new(LeasedProject {
                project: Project::new(id, Arc::clone(&self.clock)),
                lease: Arc::new(Mutex::new(QuotaLease::new())),
                waiters: Arc::new(Semaphore::new(WAITERS_MAX)),
            })
        };
        Arc::clone(projects.entry(id).or_insert_with(new))
    }

    /// Has nearly used leases refilled soon.
    pub fn refill_soon(&self) {
        self.refill.notify_one();
    }

    /// Admits a request that finds too few tokens. On the runtime of the catalog, as it has the
    /// connections; a request that is cancelled meanwhile drops its reservation.
    pub fn spawn_admit(
        self: &Arc<Self>,
        leased: Arc<LeasedProject>,
        events: u64,
    ) -> Result<JoinHandle<Result<ImportReservation, ImportRefusal>>, ImportRefusal> {
        let permit = Arc::clone(&leased.waiters).try_acquire_owned();
        let permit = permit.map_err(|_| ImportRefusal::Unavailable)?;
        let renewer = Arc::clone(self);
        Ok(self.catalog.runtime().spawn(async move {
            let admitted = renewer.admit(&leased, events).await;
            drop(permit);
            admitted
        }))
    }

    async fn admit(
        &self,
        leased: &LeasedProject,
        events: u64,
    ) -> Result<ImportReservation, ImportRefusal> {
        let project = &leased.project;
        let mut lease = leased.lease.lock().await;
        loop {
            // Those who waited before may have left enough, or know that there is not.
            if let Some(reservation) = project.reserve(events) {
                return Ok(reservation);
            }
            if let Some(refusal) = project.refusal(events) {
                return Err(refusal);
            }
            // Its client has gone. A lease of now would not go back any more.
            if self.is_stopping.load(Ordering::Acquire) {
                return Err(ImportRefusal::Unavailable);
            }
            self.renew(project, &mut lease, Cause::Request(events))
                .await;
        }
    }

    /// Runs until it is told to stop.
    async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut ticks = tokio::time::interval(TICK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let cause = tokio::select! {
                _ = ticks.tick() => Cause::Tick,
                () = self.refill.notified() => Cause::Refill,
                _ = stop.wait_for(|stops| *stops) => break,
            };
            if let Err(reason) = self.begin().await {
                self.failed(&reason);
            }
            metrics::historical_held(self.renew_all(cause).await);
            pass(PanicPoint::LeasesRenewed);
        }
        self.has_failed.store(false, Ordering::Relaxed);
        self.is_stopping.store(true, Ordering::Release);
        let closed = timeout(CLOSE_GRACE, self.renew_all(Cause::Stop)).await;
        if closed.is_err() || self.has_failed.load(Ordering::Relaxed) {
            tracing::warn!(
                "the last imported events are not counted and their leases not given back, as \
                 nothing could be written to the catalog"
            );
        }
    }

    /// Renews the lease of a project, if there is anything to report.
    async fn renew(&self, project: &Project, lease: &mut QuotaLease, cause: Cause) {
        let Some(lease_report) = lease.report(project, cause) else {
            return;
        };
        let deadline = Instant::now() + CATALOG_TIMEOUT;
        self.report(project, lease, lease_report, deadline).await;
    }

    async fn report(
        &self,
        project: &Project,
        lease: &mut QuotaLease,
        lease_report: LeaseReport,
        deadline: Instant,
    ) {
        let quotas = ImportQuotas::new(&self.catalog);
        let renewed = quotas.renew_lease(self.holder, project.id, lease_report);
        match self.ask(renewed, deadline).await {
            Ok(decision) => self.answered(project, lease, lease_report, decision),
            Err(error) => self.unanswered(project, lease, &error.to_string()),
        }
    }

    fn answered(
        &self,
        project: &Project,
        lease: &mut QuotaLease,
        lease_report: LeaseReport,
        decision: Option<LeaseDecision>,
    ) {
        // A project whose reports are answered all the time says nothing about the others.
        if lease.note_answer(true) && self.failures.clear() {
            tracing::info!(project_id = %project.id, "imports are accepted and counted again");
        }
        lease.apply(project, lease_report, decision);
    }

    fn unanswered(&self, project: &Project, lease: &mut QuotaLease, reason: &str) {
        // Requests that wait are refused, and try again later.
        project.note(CatalogDecision::new(None));
        lease.note_answer(false);
        self.failed(reason);
    }

    /// Asks the catalog once there is a permit, until a time.
    async fn ask<T>(
        &self,
        question: impl Future<Output = Result<T, ChangeError>>,
        deadline: Instant,
    ) -> Result<T, AskError> {
        let asked = async {
            // It is never closed.
            let _permit = self.calls.acquire().await;
            self.begin().await.map_err(AskError::Unavailable)?;
            question.await.map_err(AskError::from)
        };
        let silent = |_| Err(AskError::Unavailable("it does not answer".to_owned()));
        timeout_at(deadline, asked).await.unwrap_or_else(silent)
    }

    /// Tells the catalog of this start, once.
    async fn begin(&self) -> Result<(), String> {
        let tell = || ImportQuotas::new(&self.catalog).start(&self.node);
        let begun = timeout(CATALOG_TIMEOUT, self.started.get_or_try_init(tell)).await;
        match begun {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("it does not answer".to_owned()),
        }
    }

    /// Forgets the failures that were logged; returns true if there were some.
    #[cfg(test)]
    pub(super) fn forget_failures(&self) -> bool {
        self.failures.clear()
    }

    fn failed(&self, reason: &str) {
        self.has_failed.store(true, Ordering::Relaxed);
        if self.failures.is_due(reason, Instant::now().into_std()) {
            tracing::error!("imports wait for the catalog: {reason}");
        }
    }
}
