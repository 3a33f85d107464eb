//! Who runs exports, what is due, one run from its claim to its end.
//!
//! Every process of the admin API has an [`Engine`]; the one that holds the lease leads: it plans
//! windows and claims runs. Runs and backfills are rows of the catalog, so a restart, or another
//! process, goes on where this one stopped. A process that loses the lease goes on with the runs
//! that it has claimed: nobody else has them as long as it says how far they are.
//!
//! | Module | Holds |
//! |---|---|
//! | `leader` | the lease |
//! | `planner` | runs of windows that are due |
//! | `backfills` | whose backfill is planned next, apart from all else |
//! | `backfill` | the next runs of one backfill |
//! | `runner` | one run: claim, progress, time-out, tries |
//! | `delivery` | the rows of one run: read, counted, handed over, published |
//! | `source` | what a run reads |
//! | `forgetter` | runs and lines of long ago |
//! | `notices` | [`Notices`]: what administrators are told |
//! | `metrics` | how it goes |

mod backfill;
mod backfills;
mod delivery;
mod forgetter;
mod leader;
mod metrics;
mod notices;
mod planner;
mod runner;
mod source;

pub use notices::{Notice, Notices};

use crate::destination::Destination;
use crate::error::ExportError;
use millrace_catalog::{BatchExport, Catalog, ExportTurns};
use millrace_clickhouse::ClickHouse;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{Notify, Semaphore};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

const DAY_SECONDS: u64 = 86_400;
/// How often it is looked what is due.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long after the death of whoever leads another process has taken over.
const TAKEN_OVER_MAX: Duration = Duration::from_secs(10);
/// What of that is left for the first look of who leads now: a catalog that answers takes far less.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// Nobody extends the lease of exports any more, as that task panicked: exports would stand still for ever.
#[derive(Debug, Error)]
#[error("the task that extends the lease of exports panicked")]
pub struct LeaseKeeperFailed;

const _: () = assert!(
    EngineOptions::DEFAULT
        .leaderless_max()
        .saturating_add(FIRST_LOOK)
        .as_millis()
        <= TAKEN_OVER_MAX.as_millis()
);

/// Makes the destination of an export.
pub type OpenDestination =
    Arc<dyn Fn(&BatchExport) -> Result<Box<dyn Destination>, ExportError> + Send + Sync>;

/// How exports run.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// Runs at a time; of one organization half of them at most, or one.
    pub runs_max: usize,
    /// How long a process may not be heard of before its lease and its claims lapse.
    pub lapse_after: Duration,
    /// The pause between two questions for the lease.
    pub ask_every: Duration,
    /// How long the catalog may take to answer one; then it is asked again.
    pub ask_timeout: Duration,
    /// The pause before the second try of a run; each further one is four times as long.
    pub retry_pause: Duration,
    /// The longest pause.
    pub retry_pause_max: Duration,
    /// Tries after the first, before a run is given up.
    pub retries_max: u32,
    /// How long runs are kept after their end; `None`: for ever.
    pub runs_kept: Option<Duration>,
    /// How long lines are kept, and no longer than the run that they are of; `None`: likewise.
    pub logs_kept: Option<Duration>,
    /// The pause before it is looked again what is older.
    pub forget_every: Duration,
}

impl EngineOptions {
    /// What is promised of exports is promised with these.
    pub const DEFAULT: Self = Self {
        runs_max: 2,
        lapse_after: Duration::from_secs(5),
        ask_every: Duration::from_secs(1),
        ask_timeout: Duration::from_millis(1_500),
        retry_pause: Duration::from_secs(60),
        retry_pause_max: Duration::from_secs(3_600),
        retries_max: 5,
        runs_kept: Some(Duration::from_secs(365 * DAY_SECONDS)),
        logs_kept: Some(Duration::from_secs(30 * DAY_SECONDS)),
        forget_every: Duration::from_secs(3_600),
    };

    /// The longest time that nobody leads after whoever did has died. It died just after it had
    /// extended its lease. Another process asked just before that lapsed, and is told so as late
    /// as can be; then comes the pause, and an answer that is as late. Claims of runs lapse
    /// before.
    #[must_use]
    pub const fn leaderless_max(&self) -> Duration {
        self.lapse_after
            .saturating_add(self.ask_timeout)
            .saturating_add(self.ask_every)
            .saturating_add(self.ask_timeout)
    }
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What exports run with. Clones share it.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    catalog: Catalog,
    clickhouse: ClickHouse,
    open: OpenDestination,
    notices: Arc<dyn Notices>,
    options: EngineOptions,
    /// Room for runs.
    slots: Arc<Semaphore>,
    /// Which organization had a run last, among those that wait.
    turns: Mutex<ExportTurns>,
    /// Told when there is room again, or runs of a backfill to claim.
    freed: Notify,
    /// Told when a run has ended: a backfill may want more.
    ended: Notify,
    tasks: TaskTracker,
    /// Backfills of which it was told that they cannot be planned now.
    unplanned: Mutex<HashSet<Uuid>>,
    /// Ends runs, which are claimed by others at once.
    stopped: CancellationToken,
}

impl Inner {
    fn turns(&self) -> MutexGuard<'_, ExportTurns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unplanned(&self) -> MutexGuard<'_, HashSet<Uuid>> {
        self.unplanned
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// An engine that does nothing yet.
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
                turns: Mutex::new(ExportTurns::new(options.runs_max)),
                freed: Notify::new(),
                ended: Notify::new(),
                tasks: TaskTracker::new(),
                unplanned: Mutex::default(),
                stopped: CancellationToken::new(),
            }),
        }
    }

    /// Runs exports until `stop`. Then another process may lead at once; runs that are under way
    /// are given back, so that it makes them.
    ///
    /// # Errors
    /// When the lease is extended no more; runs are given back then, too.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), LeaseKeeperFailed> {
        metrics::describe();
        let holder = Uuid::new_v4();
        let leads = leader::Leader::start(&self.inner, holder);
        let outcome = tokio::select! {
            () = stop => Ok(()),
            () = leads.failed() => Err(LeaseKeeperFailed),
            never = self.look(&leads) => match never {},
            never = backfills::plan(&self.inner, &leads) => match never {},
            never = forgetter::forget(&self.inner, &leads) => match never {},
            never = metrics::tell_lag(&self.inner.catalog) => match never {},
        };
        self.inner.stopped.cancel();
        leads.end(&self.inner, holder).await;
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
        outcome
    }

    async fn look(&self, leads: &leader::Leader) -> std::convert::Infallible {
        let mut every = tokio::time::interval(LOOK_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told: Option<String> = None;
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
            match self.plan_and_claim(leads).await {
                Ok(()) => told = None,
                Err(error) => {
                    let error = error.to_string();
                    // Once for as long as it is the same.
                    if told.as_ref() != Some(&error) {
                        tracing::warn!(
                            error,
                            "exports cannot be planned; trying again until they can"
                        );
                        told = Some(error);
                    }
                }
            }
        }
    }

    /// Makes runs of windows by the clock, and claims what is due.
    async fn plan_and_claim(&self, leads: &leader::Leader) -> Result<(), planner::PlanError> {
        if !self.inner.catalog.has_export_work().await? {
            return Ok(());
        }
        let planned = planner::windows(&self.inner).await;
        self.claim(leads).await;
        planned
    }

    /// Claims runs as long as there are any, and room.
    async fn claim(&self, leads: &leader::Leader) {
        while leads.now() && runner::claim_one(&self.inner).await {}
    }
}
