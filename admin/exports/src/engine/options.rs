//! Options of the engine.

use super::pace::MinimumPace;
use std::time::Duration;

const DAY_SECONDS: u64 = 86_400;
/// Interval at which due work is planned.
pub(super) const PLAN_EVERY: Duration = Duration::from_millis(250);

/// Longest step of planning, in lifetimes of the lease: a hundred exports are planned in one.
const STEP_LEASES: u32 = 6;

/// Options of the engine.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// Runs at a time; one organization has half of them at most, or one.
    pub runs_max: usize,
    /// Time without a renewal after which a process's lease and its claims lapse.
    pub lapse_after: Duration,
    /// Pause between two requests for the lease.
    pub ask_every: Duration,
    /// Time limit of a request for the lease; after it the lease is requested again.
    pub ask_timeout: Duration,
    /// Pause before the first retry of a run; each further one is four times as long.
    pub retry_pause: Duration,
    /// Longest pause before a retry.
    pub retry_pause_max: Duration,
    /// Retries before a run is given up.
    pub retries_max: u32,
    /// Time limit of a try, where that of its interval is not shorter.
    pub try_max: Duration,
    /// Time for which a try waits for persons to be up to date, in its slot.
    pub persons_wait_max: Duration,
    /// Slowest pace at which a destination may take rows.
    pub pace: MinimumPace,
    /// Longest work of ClickHouse on a statement that finds a backfill's windows.
    pub window_search_max: Duration,
    /// Time for which runs are kept after their end; `None`: for ever.
    pub runs_kept: Option<Duration>,
    /// Time for which log lines are kept, but no longer than their run; `None`: as long as their
    /// run.
    pub logs_kept: Option<Duration>,
    /// Pause between two checks for runs and log lines that are too old.
    pub retention_every: Duration,
}

impl EngineOptions {
    /// Options that the promises about exports are made for.
    pub const DEFAULT: Self = Self {
        runs_max: 2,
        lapse_after: Duration::from_secs(5),
        ask_every: Duration::from_secs(1),
        ask_timeout: Duration::from_millis(1_500),
        retry_pause: Duration::from_secs(60),
        retry_pause_max: Duration::from_secs(3_600),
        retries_max: 5,
        try_max: Duration::from_secs(3 * DAY_SECONDS),
        persons_wait_max: Duration::from_secs(60),
        pace: MinimumPace {
            // Twice what a warehouse may take for one statement, of 2 MiB at most.
            window: Duration::from_secs(7_200),
            bytes_per_second: 256,
        },
        // As long as a customer's query: planning waits for such a statement, and other customers'
        // backfills may wait for it, too.
        window_search_max: Duration::from_secs(300),
        runs_kept: Some(Duration::from_secs(365 * DAY_SECONDS)),
        logs_kept: Some(Duration::from_secs(30 * DAY_SECONDS)),
        retention_every: Duration::from_secs(3_600),
    };

    /// Longest time without a leader after the leader has died. In the worst case it died just
    /// after it had renewed its lease. Another process requested the lease just before it lapsed,
    /// and gets its refusal as late as possible; then follow the pause, and an answer that is as
    /// late. Claims of runs lapse before.
    #[must_use]
    pub const fn leaderless_max(&self) -> Duration {
        self.lapse_after
            .saturating_add(self.ask_timeout)
            .saturating_add(self.ask_every)
            .saturating_add(self.ask_timeout)
    }
}

impl EngineOptions {
    /// Longest wait of the leader for one step of its planning, of which each takes far less: then
    /// it gives the lease up, and begins anew with another connection of the catalog.
    pub(super) const fn step_max(&self) -> Duration {
        self.lapse_after.saturating_mul(STEP_LEASES)
    }
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}
