//! Engine of batch exports: elects a leader, plans what is due, and carries runs out.
//!
//! Every process of the admin API has an [`Engine`]; the one that holds the lease leads: it plans
//! windows and claims runs. Runs and backfills are rows of the catalog, so a restart, or another
//! process, goes on where this one stopped. A process that loses the lease goes on with the runs
//! that it has claimed: no other process claims them as long as it records their progress.
//!
//! | Module | Holds |
//! |---|---|
//! | `options`, `state` | options of the engine, state that its tasks share |
//! | `leader` | the lease of the process that leads |
//! | `planner` | runs of windows that are due |
//! | `backfill_scheduler` | schedules the planning of backfills, by organization |
//! | `backfill` | the next runs of one backfill |
//! | `runner` | one run: try, time-out, end, retries |
//! | `claim` | extends the claim of a run with its progress, ends it with a status |
//! | `delivery` | delivers the rows of one run: read, count, hand over, publish |
//! | `lost_queries` | customers' queries that end ClickHouse: after a few tries their exports' runs fail |
//! | `panics` | panics of runs and of planning, each of which ends its try alone |
//! | `pace` | minimum pace at which a destination takes rows |
//! | `source`, `logins` | rows that a run reads; with whose rights customers' queries run |
//! | `unknown_values` | logs exports with values of another version, which are left alone |
//! | `retention` | deletes old runs and log lines |
//! | `notices` | [`Notices`] to administrators |
//! | `metrics` | metrics for Prometheus |

mod backfill;
mod backfill_scheduler;
mod claim;
mod delivery;
mod leader;
mod logins;
mod lost_queries;
mod metrics;
mod notices;
mod options;
mod pace;
mod panics;
mod planner;
mod retention;
mod runner;
mod source;
mod state;
mod unknown_values;

pub use logins::ProjectLogins;
pub use notices::{Notice, Notices};
pub use options::EngineOptions;
pub use pace::MinimumPace;
pub use runner::TAKE_BACK_TIMEOUT;
pub use state::OpenDestination;

use crate::records::{ExportPlanner, RunRoundRobin};
use millrace_catalog::Catalog;
use millrace_clickhouse::ClickHouse;
use millrace_rows::RareLog;
use options::PLAN_EVERY;
use planner::{PlanError, in_time};
use state::Inner;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{Notify, Semaphore};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

/// Time after the leader's death within which another process takes over.
const TAKEOVER_MAX: Duration = Duration::from_secs(10);
/// Part of that time for the new leader's first planning: a catalog that answers takes far less.
const FIRST_PLAN_MAX: Duration = Duration::from_secs(1);

/// The task that renews the lease of exports panicked: no export would ever run again.
#[derive(Debug, Error)]
#[error("the task that extends the lease of exports panicked")]
pub struct LeaseRenewerFailed;

const _: () = assert!(
    EngineOptions::DEFAULT
        .leaderless_max()
        .saturating_add(FIRST_PLAN_MAX)
        .as_millis()
        <= TAKEOVER_MAX.as_millis()
);

/// Engine of batch exports. Clones share its state.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

impl Engine {
    /// Creates an engine that does nothing yet.
    pub fn new(
        catalog: Catalog,
        clickhouse: ClickHouse,
        open: OpenDestination,
        notices: Arc<dyn Notices>,
        options: EngineOptions,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                catalog,
                clickhouse,
                open,
                notices,
                options,
                slots: Arc::new(Semaphore::new(options.runs_max)),
                round_robin: Mutex::new(RunRoundRobin::new(options.runs_max)),
                freed: Notify::new(),
                ended: Notify::new(),
                tasks: TaskTracker::new(),
                failures: RareLog::default(),
                lost_queries: Mutex::default(),
                logins: OnceLock::new(),
                stopped: CancellationToken::new(),
            }),
        }
    }

    /// Has customers' queries run with the logins of their projects; the first call counts.
    #[must_use]
    pub fn with_logins(self, logins: Arc<dyn ProjectLogins>) -> Self {
        // An earlier one stays.
        let _ = self.inner.logins.set(logins);
        self
    }

    /// Runs exports until `stop`. Then another process may lead at once; runs that are under way
    /// are released, so that it makes them.
    ///
    /// # Errors
    /// The task that renews the lease panicked; runs are released then, too.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), LeaseRenewerFailed> {
        metrics::describe();
        let holder = Uuid::new_v4();
        let leads = leader::Leader::start(&self.inner, holder);
        let outcome = tokio::select! {
            () = stop => Ok(()),
            () = leads.failed() => Err(LeaseRenewerFailed),
            never = self.plan_loop(&leads) => match never {},
            never = backfill_scheduler::run(&self.inner, &leads) => match never {},
            never = retention::run(&self.inner, &leads) => match never {},
            never = unknown_values::run(&self.inner, &leads) => match never {},
            never = metrics::record_lag(&self.inner.catalog) => match never {},
        };
        self.inner.stopped.cancel();
        leads.end(&self.inner, holder).await;
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
        outcome
    }

    async fn plan_loop(&self, leads: &leader::Leader) -> std::convert::Infallible {
        let mut every = tokio::time::interval(PLAN_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = every.tick() => {}
                () = leads.begins() => {}
                () = self.inner.freed.notified() => {}
            }
            metrics::leads(leads.now());
            if !leads.now() {
                continue;
            }
            if let Err(error) = self.plan_and_claim(leads).await {
                if matches!(error, PlanError::NoAnswer) {
                    leads.resign();
                }
                if self.inner.is_logged("plan", &error) {
                    tracing::warn!(%error, "exports cannot be planned; trying again until they can");
                }
            }
        }
    }

    /// Creates runs of windows by the clock, and claims due ones.
    async fn plan_and_claim(&self, leads: &leader::Leader) -> Result<(), PlanError> {
        let inner = &self.inner;
        if !in_time(inner, ExportPlanner::new(&inner.catalog).has_work()).await? {
            return Ok(());
        }
        let planned = in_time(inner, planner::windows(inner)).await;
        if matches!(planned, Err(PlanError::NoAnswer)) {
            return planned;
        }
        self.claim(leads).await?;
        planned
    }

    /// Claims runs as long as there are due ones and free slots.
    async fn claim(&self, leads: &leader::Leader) -> Result<(), PlanError> {
        while leads.now() {
            let claimed = async { Ok::<_, PlanError>(runner::claim_one(&self.inner).await) };
            if !in_time(&self.inner, claimed).await? {
                break;
            }
        }
        Ok(())
    }
}
