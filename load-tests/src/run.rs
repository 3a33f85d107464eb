//! A run: threads, warm-up, window, summary.
//!
//! Each thread has its own single-threaded runtime and its share of the connections. All connect
//! before the first request is due. The calling thread only watches: it takes the processes' CPU
//! times at both ends of the window and reports progress.

mod watch;
mod worker;

use crate::ledger::LedgerWriter;
use crate::peer::Peer;
use crate::plan::{Mode, Plan, Target};
use crate::schedule::{Schedule, Times};
use crate::summary::Summary;
use crate::tally::{Tally, Totals};
use anyhow::{Context, Result, anyhow};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use watch::Watch;

/// How often progress is reported, memory looked at, and the end of the threads noticed.
const TICK: Duration = Duration::from_millis(50);

/// Asks a run to end early: what is in flight is waited for and counted. Clones ask the same run.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<OnceLock<Instant>>);

impl Stop {
    /// Asks; asking again changes nothing.
    pub fn ask(&self) {
        self.0.get_or_init(Instant::now);
    }

    /// Whether it was asked.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.asked_at().is_some()
    }

    /// When it was asked.
    #[must_use]
    pub fn asked_at(&self) -> Option<Instant> {
        self.0.get().copied()
    }
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Time since the first request was due.
    pub elapsed: Duration,
    /// Whether the window has not begun.
    pub warming_up: bool,
    /// Events acknowledged so far, warm-up included.
    pub acknowledged_events: u64,
    /// Requests without acknowledgement so far.
    pub failed_requests: u64,
    /// Median latency of the window so far, in microseconds.
    pub p50_us: f64,
    /// 99th percentile likewise.
    pub p99_us: f64,
}

/// Runs a plan to its end; blocks the calling thread.
///
/// # Errors
/// The plan makes no sense, the server cannot be reached at the start, or the generator itself
/// failed. Errors of requests are not errors of the run, they are in the summary.
pub fn run(plan: &Plan) -> Result<Summary> {
    run_observed(plan, &Stop::default(), &mut |_| {})
}

/// The same, reporting progress about twenty times a second and ending when asked to.
///
/// # Errors
/// As [`run`].
pub fn run_observed(
    plan: &Plan,
    stop: &Stop,
    observe: &mut dyn FnMut(&Progress),
) -> Result<Summary> {
    let target = plan.check()?;
    let run_id = plan.run_id.unwrap_or_else(rand::random);
    let shared = Arc::new(Shared {
        plan: plan.clone(),
        peer: Peer::new(&target, &plan.trust)?,
        target,
        run_id,
        schedule: Schedule::new(plan, stop.clone()),
        ledger: match &plan.ledger {
            Some(path) => Some(LedgerWriter::begin(path, run_id, plan.batch_events)?),
            None => None,
        },
        stop: stop.clone(),
        ready: Barrier::new(plan.threads + 1),
        go: Barrier::new(plan.threads + 1),
    });
    let tallies: Vec<_> = (0..plan.threads)
        .map(|_| Arc::new(Tally::default()))
        .collect();
    let threads = start_threads(&shared, &tallies)?;
    shared.ready.wait();
    let times = shared.schedule.start(Instant::now(), plan);
    shared.go.wait();

    let mut watch = Watch::new(plan, times);
    while !watch.is_over(&threads) {
        std::thread::sleep(watch.pause());
        watch.tick()?;
        observe(&progress(plan, times, &tallies));
    }
    for thread in threads {
        thread
            .join()
            .map_err(|_| anyhow!("a generator thread panicked"))??;
    }
    watch.close()?;
    Ok(watch.summary(&shared, &tallies))
}

/// What the threads of a run share.
struct Shared {
    plan: Plan,
    target: Target,
    peer: Peer,
    run_id: u32,
    schedule: Schedule,
    ledger: Option<LedgerWriter>,
    stop: Stop,
    /// All threads have connected.
    ready: Barrier,
    /// The schedule has started.
    go: Barrier,
}

fn start_threads(
    shared: &Arc<Shared>,
    tallies: &[Arc<Tally>],
) -> Result<Vec<JoinHandle<Result<()>>>> {
    let start = |(index, tally): (usize, &Arc<Tally>)| {
        let (shared, tally) = (Arc::clone(shared), Arc::clone(tally));
        std::thread::Builder::new()
            .name(format!("load-{index}"))
            .spawn(move || worker::work(&shared, &tally, index))
            .context("cannot start a thread")
    };
    tallies.iter().enumerate().map(start).collect()
}

fn progress(plan: &Plan, times: Times, tallies: &[Arc<Tally>]) -> Progress {
    let latency = Totals::of(tallies).latency;
    let now = Instant::now();
    Progress {
        elapsed: now.saturating_duration_since(times.start),
        warming_up: now < times.window_start,
        acknowledged_events: sum(tallies, |t| &t.acknowledged) * u64::from(plan.batch_events),
        failed_requests: sum(tallies, |t| &t.failed),
        p50_us: latency.value_at_quantile(0.5) as f64 / 1000.0,
        p99_us: latency.value_at_quantile(0.99) as f64 / 1000.0,
    }
}

fn sum(tallies: &[Arc<Tally>], count: impl Fn(&Tally) -> &AtomicU64) -> u64 {
    tallies
        .iter()
        .map(|tally| count(tally).load(Ordering::Relaxed))
        .sum()
}

/// Whether a request counts for the figures: a closed loop is judged by when answers came, an
/// open one by when requests were due, so that slow answers cannot leave the window.
fn in_window(mode: Mode, times: Times, due: Instant, answered: Instant) -> bool {
    let at = match mode {
        Mode::Closed => answered,
        Mode::Open { .. } => due,
    };
    (times.window_start..times.window_end).contains(&at)
}
