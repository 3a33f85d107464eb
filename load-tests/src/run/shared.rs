//! State that the threads of a run share.

use crate::ledger::AckLedgerWriter;
use crate::peer::Peer;
use crate::plan::Plan;
use crate::schedule::{Schedule, Times};
use crate::stop::Stop;
use crate::target::Target;
use crate::worker_stats::WorkerStats;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// Interval of progress reports, memory readings, and checks for the end of the threads.
pub(super) const TICK: Duration = Duration::from_millis(50);

/// State that the threads of a run share.
pub(super) struct Shared {
    pub(super) plan: Plan,
    pub(super) target: Target,
    pub(super) peer: Peer,
    pub(super) run_id: u32,
    pub(super) schedule: Schedule,
    pub(super) ledger: Option<AckLedgerWriter>,
    pub(super) stop: Stop,
    /// Passed when all threads have connected.
    pub(super) ready: Barrier,
    /// Passed when the schedule has started.
    pub(super) go: Barrier,
}

/// Sums a count of all threads.
pub(super) fn sum(
    all_stats: &[Arc<WorkerStats>],
    count: impl Fn(&WorkerStats) -> &AtomicU64,
) -> u64 {
    all_stats
        .iter()
        .map(|stats| count(stats).load(Ordering::Relaxed))
        .sum()
}

/// Returns true if a request counts for the figures. A closed loop counts by the time of the
/// response, an open one by the time when the request was due, so that slow responses cannot leave
/// the window.
pub(super) fn in_window(plan: &Plan, times: Times, due: Instant, answered: Instant) -> bool {
    let at = if plan.mode.is_open() { due } else { answered };
    (times.window_start..times.window_end).contains(&at)
}
