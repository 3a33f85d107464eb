//! A run with its threads, warm-up, window and summary.
//!
//! Each thread has its own single-threaded runtime and its share of the connections. All connect
//! before the first request is due. The calling thread only watches: it takes the processes' CPU
//! times at both ends of the window and reports progress.

mod shared;
mod watch;
mod worker;

use crate::ledger::AckLedgerWriter;
use crate::peer::Peer;
use crate::plan::Plan;
use crate::schedule::{Schedule, Times};
use crate::series::PointLatency;
use crate::stop::Stop;
use crate::summary::Summary;
use crate::worker_stats::{WorkerStats, last_whole};
use anyhow::{Context, Result, anyhow};
use shared::{Shared, sum};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use watch::Watch;

/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Time since the first request was due.
    pub elapsed: Duration,
    /// True while the window has not begun.
    pub warming_up: bool,
    /// Requests acknowledged so far, warm-up included.
    pub acknowledged_requests: u64,
    /// Events acknowledged so far, warm-up included.
    pub acknowledged_events: u64,
    /// Requests without acknowledgement so far.
    pub failed_requests: u64,
    /// Events acknowledged per second, in the last whole second; 0 in the first one.
    pub events_per_second: f64,
    /// Latencies of the last whole second; `None` if no response came in it.
    pub latency: Option<PointLatency>,
}

/// Runs a plan to its end; blocks the calling thread.
///
/// # Errors
/// The plan cannot run, the server cannot be reached at the start, or the generator itself failed.
/// Errors of requests are not errors of the run; they are in the summary.
pub fn run(plan: &Plan) -> Result<Summary> {
    run_observed(plan, &Stop::default(), &mut |_| {})
}

/// Runs a plan, reports progress about twenty times a second and ends when asked to.
///
/// # Errors
/// See [`run`].
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
            Some(path) => Some(AckLedgerWriter::begin(path, run_id, plan.batch_events)?),
            None => None,
        },
        stop: stop.clone(),
        ready: Barrier::new(plan.threads + 1),
        go: Barrier::new(plan.threads + 1),
    });
    let all_stats: Vec<_> = (0..plan.threads)
        .map(|_| Arc::new(WorkerStats::default()))
        .collect();
    let threads = start_threads(&shared, &all_stats)?;
    shared.ready.wait();
    let times = shared.schedule.start(Instant::now(), plan);
    shared.go.wait();

    let mut watch = Watch::new(plan, times);
    while !watch.is_over(&threads) {
        std::thread::sleep(watch.pause());
        watch.tick()?;
        observe(&progress(times, &all_stats));
    }
    for thread in threads {
        thread
            .join()
            .map_err(|_| anyhow!("a generator thread panicked"))??;
    }
    watch.close()?;
    watch.summary(&shared, &all_stats)
}

fn start_threads(
    shared: &Arc<Shared>,
    all_stats: &[Arc<WorkerStats>],
) -> Result<Vec<JoinHandle<Result<()>>>> {
    let start = |(index, stats): (usize, &Arc<WorkerStats>)| {
        let (shared, stats) = (Arc::clone(shared), Arc::clone(stats));
        std::thread::Builder::new()
            .name(format!("load-{index}"))
            .spawn(move || worker::work(&shared, &stats, index))
            .context("cannot start a thread")
    };
    all_stats.iter().enumerate().map(start).collect()
}

fn progress(times: Times, all_stats: &[Arc<WorkerStats>]) -> Progress {
    let now = Instant::now();
    let elapsed = now.saturating_duration_since(times.start);
    let recent = last_whole(all_stats, elapsed);
    Progress {
        elapsed,
        warming_up: now < times.window_start,
        acknowledged_requests: sum(all_stats, |t| &t.acknowledged),
        acknowledged_events: sum(all_stats, |t| &t.acknowledged_events),
        failed_requests: sum(all_stats, |t| &t.failed),
        events_per_second: recent.map_or(0.0, |point| point.events_per_second()),
        latency: recent.and_then(|point| point.latency),
    }
}
