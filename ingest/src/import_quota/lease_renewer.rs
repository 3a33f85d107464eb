//! Task that renews the quota leases of a node with the catalog.

use super::lease::QuotaLease;
use super::project_table::ProjectTable;
use super::refusal::ImportRefusal;
use crate::metrics;
use millrace_catalog::{Catalog, LeaseDecision, LeaseReport, LogPlace};
use millrace_pipeline::{ImportCount, LogPanic, Pipeline, Position, RecountError};
use millrace_rows::{Lane, ProjectId};
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, timeout};

/// Interval in which the catalog is told what was counted.
const TICK_EVERY: Duration = Duration::from_secs(1);
/// Time that the catalog may take.
const CATALOG_TIMEOUT: Duration = Duration::from_secs(3);
/// Time that the catalog may take when the process is about to end.
const CLOSE_GRACE: Duration = Duration::from_secs(2);
/// Pause after the catalog failed.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Time after the catalog's last answer from which nothing is admitted; the catalog reserves what a
/// node holds for twice as long.
const LEASE_EXPIRY: Duration = Duration::from_secs(10);

/// Count of the imports of earlier starts from a position on, by project.
pub type Recount = fn(&Pipeline, Position) -> Result<BTreeMap<ProjectId, u64>, RecountError>;

type LeaseReports = BTreeMap<ProjectId, LeaseReport>;
type Decisions = BTreeMap<ProjectId, Option<LeaseDecision>>;

/// Reason why the count of earlier starts was not taken up.
enum ResumeError {
    /// The catalog or the disk fails, for now.
    Unavailable(String),
    /// Counting panicked, as it would again.
    Panicked(LogPanic),
}

impl From<String> for ResumeError {
    fn from(reason: String) -> Self {
        Self::Unavailable(reason)
    }
}

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

    pub(super) const fn new(stop: watch::Sender<bool>, task: JoinHandle<()>) -> Self {
        Self { stop, task }
    }

    /// Waits until the lease renewer fails, after which no import is counted or admitted any more.
    /// Not to be called again after that.
    pub async fn failed(&mut self) -> String {
        match (&mut self.task).await {
            Err(error) => format!("imports are no longer counted: {error}"),
            Ok(()) => "imports are no longer counted".to_owned(),
        }
    }

    /// Reports the last events that were counted, and releases the leases. To be called when no
    /// request is under way any more and all commits have ended; before the shippers end.
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

/// Renews the quota leases of this node.
pub struct LeaseRenewer {
    table: Arc<ProjectTable>,
    catalog: Catalog,
    pipeline: Pipeline,
    node: String,
    recount: Recount,
    /// Events counted before the start, by project.
    counted_before: BTreeMap<ProjectId, i64>,
    leases: BTreeMap<ProjectId, QuotaLease>,
    answered_at: Instant,
    log_kept_from: Position,
    is_failing: bool,
}

impl LeaseRenewer {
    pub fn new(
        table: Arc<ProjectTable>,
        catalog: Catalog,
        pipeline: Pipeline,
        node: String,
        recount: Recount,
    ) -> Self {
        Self {
            table,
            catalog,
            pipeline,
            node,
            recount,
            counted_before: BTreeMap::new(),
            leases: BTreeMap::new(),
            answered_at: Instant::now(),
            log_kept_from: Position::FIRST,
            is_failing: false,
        }
    }

    /// Runs until it is told to stop.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        metrics::imports_stopped(false);
        while let Err(error) = self.resume().await {
            let reason = match error {
                ResumeError::Unavailable(reason) => reason,
                ResumeError::Panicked(panic) => return self.stop_imports(&panic, stop).await,
            };
            self.failed(&reason);
            self.table.reject_waiters(ImportRefusal::Unavailable);
            tokio::select! {
                () = tokio::time::sleep(RETRY_PAUSE) => {}
                _ = stop.wait_for(|stops| *stops) => return,
            }
        }
        let mut ticks = tokio::time::interval(TICK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_timer_tick = tokio::select! {
                _ = ticks.tick() => true,
                () = self.table.wake.notified() => false,
                _ = stop.wait_for(|stops| *stops) => break,
            };
            if !self.tick(is_timer_tick).await {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
        self.release_leases().await;
    }

    /// Refuses imports until it is told to stop. Their log is kept for the next start's count.
    async fn stop_imports(self, panic: &LogPanic, mut stop: watch::Receiver<bool>) {
        let reason = format!(
            "imports are refused, as counting those of before fails by a bug, in the {} log: {panic}",
            Lane::Historical.name()
        );
        tracing::error!("{reason}; RUNBOOK.md, MillraceImportsStopped, has the way out");
        metrics::imports_stopped(true);
        self.table.stop(reason);
        // Fails when nobody is left to tell it.
        let _ = stop.wait_for(|stops| *stops).await;
    }

    /// Counts the events that an earlier process left uncounted, and gives back what it held.
    async fn resume(&mut self) -> Result<(), ResumeError> {
        let counted_to = self.pipeline.import_count().counted_to;
        let started = self.catalog.start_historical_node(&self.node);
        let before = flatten(timeout(CATALOG_TIMEOUT, started).await)?;
        let mut counted = before.counted;
        if let Some(counted_to) = before.counted_to {
            for (project_id, events) in self.recount(position(counted_to)).await? {
                let events = i64::try_from(events).unwrap_or(i64::MAX);
                *counted.entry(project_id).or_default() += events;
            }
        }
        let lease_report = |counted: i64| LeaseReport {
            counted,
            ..LeaseReport::default()
        };
        let lease_reports = counted
            .iter()
            .map(|(id, counted)| (*id, lease_report(*counted)));
        self.exchange(counted_to, &lease_reports.collect(), CATALOG_TIMEOUT)
            .await?;
        self.counted_before = counted;
        Ok(self.keep_log_from(counted_to).await?)
    }

    /// Counts the events of earlier starts from a position on.
    async fn recount(&self, from: Position) -> Result<BTreeMap<ProjectId, u64>, ResumeError> {
        let (pipeline, recount) = (self.pipeline.clone(), self.recount);
        let counted = run_blocking(move || Ok::<_, String>(recount(&pipeline, from)));
        match counted.await? {
            Ok(counted) => Ok(counted),
            Err(RecountError::Panicked(panic)) => Err(ResumeError::Panicked(panic)),
            Err(RecountError::Read(error)) => Err(ResumeError::Unavailable(error.to_string())),
        }
    }

    /// Reports to the catalog where there is news, and applies its answer. Returns false if it does
    /// not answer.
    async fn tick(&mut self, is_timer_tick: bool) -> bool {
        self.add_new_projects();
        if self.answered_at.elapsed() > LEASE_EXPIRY {
            self.leases.values_mut().for_each(QuotaLease::expire);
        }
        let count = self.pipeline.import_count();
        let mut lease_reports = LeaseReports::new();
        for (id, lease) in &mut self.leases {
            if let Some(lease_report) = lease.report(counted(&count, *id), is_timer_tick) {
                lease_reports.insert(*id, lease_report);
            }
        }
        let outcome = match lease_reports.is_empty() {
            // Everything is counted.
            true => self.keep_log_from(count.counted_to).await,
            false => self.renew(&count, &lease_reports).await,
        };
        let held = self.leases.iter();
        let held = held.map(|(id, lease)| lease.held(counted(&count, *id)));
        metrics::historical_held(held.sum());
        outcome.inspect_err(|reason| self.failed(reason)).is_ok()
    }

    async fn renew(
        &mut self,
        count: &ImportCount,
        lease_reports: &LeaseReports,
    ) -> Result<(), String> {
        let exchanged = self.exchange(count.counted_to, lease_reports, CATALOG_TIMEOUT);
        let decisions = match exchanged.await {
            Ok(decisions) => decisions,
            Err(reason) => {
                for id in lease_reports.keys() {
                    let lease = self.leases.get_mut(id);
                    lease.into_iter().for_each(QuotaLease::exchange_failed);
                }
                return Err(reason);
            }
        };
        if std::mem::take(&mut self.is_failing) {
            tracing::info!("imports are accepted and counted again");
        }
        for (id, decision) in decisions {
            let lease = self.leases.get_mut(&id);
            if lease.is_some_and(|it| it.apply(counted(count, id), decision)) {
                self.table.wake.notify_one();
            }
        }
        self.keep_log_from(count.counted_to).await
    }

    /// Reports all that was counted, and gives all tokens back.
    async fn release_leases(&mut self) {
        let count = self.pipeline.import_count();
        let mut lease_reports = LeaseReports::new();
        for (id, lease) in &mut self.leases {
            if let Some(lease_report) = lease.close(counted(&count, *id)) {
                lease_reports.insert(*id, lease_report);
            }
        }
        if lease_reports.is_empty() {
            return;
        }
        let exchanged = self
            .exchange(count.counted_to, &lease_reports, CLOSE_GRACE)
            .await;
        if let Err(reason) = exchanged {
            tracing::warn!(
                "the last counts of imported events could not be written to the catalog; the next start counts these events: {reason}"
            );
            return;
        }
        if let Err(reason) = self.keep_log_from(count.counted_to).await {
            tracing::warn!("the log of imports cannot be released: {reason}");
        }
    }

    fn add_new_projects(&mut self) {
        for project in self.table.projects() {
            let before = self.counted_before.get(&project.id()).copied();
            self.leases
                .entry(project.id())
                .or_insert_with(|| QuotaLease::new(project, before.unwrap_or_default()));
        }
    }

    async fn exchange(
        &mut self,
        counted_to: Position,
        lease_reports: &LeaseReports,
        time: Duration,
    ) -> Result<Decisions, String> {
        let exchange =
            self.catalog
                .exchange_quota_leases(&self.node, place(counted_to), lease_reports);
        let decisions = flatten(timeout(time, exchange).await)?;
        self.answered_at = Instant::now();
        Ok(decisions)
    }

    /// Releases the log of imports below a position, as all of it is counted.
    async fn keep_log_from(&mut self, position: Position) -> Result<(), String> {
        if position == self.log_kept_from {
            return Ok(());
        }
        let pipeline = self.pipeline.clone();
        run_blocking(move || pipeline.keep_historical_from(position)).await?;
        self.log_kept_from = position;
        Ok(())
    }

    fn failed(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::error!("imports wait for the catalog: {reason}");
        }
    }
}

/// Runs work on the log on a thread that may block. A panic of it goes on here, and ends the lease
/// renewer: tried again, it would be met again.
async fn run_blocking<T, E>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, String>
where
    T: Send + 'static,
    E: ToString + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(error) => Err(error.to_string()),
        },
    }
}

fn flatten<T, E: ToString>(
    result: Result<Result<T, E>, tokio::time::error::Elapsed>,
) -> Result<T, String> {
    match result {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("it does not answer".to_owned()),
    }
}

fn counted(count: &ImportCount, id: ProjectId) -> i64 {
    let counted = count.events.get(&id).copied().unwrap_or_default();
    i64::try_from(counted).unwrap_or(i64::MAX)
}

const fn place(position: Position) -> LogPlace {
    LogPlace {
        segment: position.segment,
        offset: position.offset,
    }
}

const fn position(place: LogPlace) -> Position {
    Position {
        segment: place.segment,
        offset: place.offset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_of_work_on_the_log_ends_the_lease_renewer() {
        let work = || -> Result<(), String> { panic!("a mistake of ours") };
        let renewer = tokio::spawn(run_blocking(work));
        assert!(renewer.await.is_err_and(|error| error.is_panic()));
        let failed = run_blocking(|| Err::<(), _>("the disk fails")).await;
        assert_eq!(failed, Err("the disk fails".to_owned()));
    }
}
