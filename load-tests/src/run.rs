//! A run: threads, warm-up, window, summary.
//!
//! Each thread has its own single-threaded runtime and its share of the connections. All connect
//! before the first request is due. The calling thread only watches: it takes the processes' CPU
//! times at both ends of the window and reports progress.

mod worker;

use crate::ledger::LedgerWriter;
use crate::peer::Peer;
use crate::plan::{Mode, Plan, Target};
use crate::process::Usage;
use crate::schedule::{Schedule, Times};
use crate::summary::{Counts, Load, Percentiles, Summary};
use crate::tally::{Tally, Totals};
use anyhow::{Context, Result, anyhow};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often progress is reported, memory looked at, and the end of the threads noticed.
const TICK: Duration = Duration::from_millis(50);

/// Asks a run to end early: what is in flight is waited for and counted. Clones ask the same run.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was asked.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Acquire)
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
    Ok(watch.summary(plan, run_id, &tallies))
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

/// The processes at both ends of the window.
struct Watch {
    server_pid: Option<u32>,
    times: Times,
    begin: Option<Sample>,
    end: Option<Sample>,
    rss_bytes_max: (u64, u64),
}

#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    generator: Usage,
    server: Option<Usage>,
}

impl Sample {
    fn take(server_pid: Option<u32>) -> Result<Self> {
        Ok(Self {
            at: Instant::now(),
            generator: Usage::of(None)?,
            // A server that was killed ends its figures, not the run.
            server: server_pid.and_then(|pid| Usage::of(Some(pid)).ok()),
        })
    }
}

impl Watch {
    fn new(plan: &Plan, times: Times) -> Self {
        Self {
            server_pid: plan.server_pid,
            times,
            begin: None,
            end: None,
            rss_bytes_max: (0, 0),
        }
    }

    fn is_over(&self, threads: &[JoinHandle<Result<()>>]) -> bool {
        threads.iter().all(JoinHandle::is_finished)
    }

    /// Time until something is to be done: at most a tick, less at the ends of the window.
    fn pause(&self) -> Duration {
        let due = match (self.begin, self.end) {
            (None, _) => self.times.window_start,
            (_, None) => self.times.window_end,
            _ => return TICK,
        };
        due.saturating_duration_since(Instant::now()).min(TICK)
    }

    fn tick(&mut self) -> Result<()> {
        let sample = Sample::take(self.server_pid)?;
        self.rss_bytes_max.0 = self.rss_bytes_max.0.max(sample.generator.rss_bytes);
        let server_rss = sample.server.map_or(0, |usage| usage.rss_bytes);
        self.rss_bytes_max.1 = self.rss_bytes_max.1.max(server_rss);
        if self.begin.is_none() && sample.at >= self.times.window_start {
            self.begin = Some(sample);
        }
        if self.end.is_none() && sample.at >= self.times.window_end {
            self.end = Some(sample);
        }
        Ok(())
    }

    /// A run that ended early has its window end where it ended.
    fn close(&mut self) -> Result<()> {
        self.tick()?;
        if self.end.is_none() {
            self.end = Some(Sample::take(self.server_pid)?);
        }
        Ok(())
    }

    fn summary(&self, plan: &Plan, run_id: u32, tallies: &[Arc<Tally>]) -> Summary {
        let totals = Totals::of(tallies);
        let counts = |acknowledged: u64, failed: u64| Counts {
            acknowledged_requests: acknowledged,
            acknowledged_events: acknowledged * u64::from(plan.batch_events),
            failed_requests: failed,
        };
        let window = counts(
            sum(tallies, |t| &t.window_acknowledged),
            sum(tallies, |t| &t.window_failed),
        );
        let window_seconds = self.window_seconds();
        let per_second = |count: u64| {
            if window_seconds > 0.0 {
                count as f64 / window_seconds
            } else {
                0.0
            }
        };
        let (generator, server) = self.loads(window_seconds, window.acknowledged_events);
        Summary {
            run_id: format!("{run_id:08x}"),
            plan: plan.clone(),
            run: counts(
                sum(tallies, |t| &t.acknowledged),
                sum(tallies, |t| &t.failed),
            ),
            window,
            window_seconds,
            events_per_second: per_second(window.acknowledged_events),
            requests_per_second: per_second(window.acknowledged_requests),
            wire_bytes_per_second: per_second(sum(tallies, |t| &t.window_wire_bytes)),
            latency: Percentiles::of(&totals.latency),
            send_lag: Percentiles::of(&totals.send_lag),
            failures: totals.failures,
            first_failure: totals.first_failure,
            generator,
            server,
        }
    }

    /// From the first due request of the window to the end of the window or of the run. Of an
    /// open loop the end is the schedule's: its rate is what was due and got an answer.
    fn window_seconds(&self) -> f64 {
        let end = self.end.map_or(self.times.window_end, |sample| {
            sample.at.min(self.times.window_end)
        });
        end.saturating_duration_since(self.times.window_start)
            .as_secs_f64()
    }

    fn loads(&self, window_seconds: f64, events: u64) -> (Load, Option<Load>) {
        let (Some(begin), Some(end)) = (self.begin, self.end) else {
            return (Load::default(), None);
        };
        let load = |begin: Usage, end: Usage, rss_bytes_max| {
            let cpu_seconds = end.cpu_seconds - begin.cpu_seconds;
            let rss = (end.rss_bytes, rss_bytes_max);
            Load::new(cpu_seconds, window_seconds, events, rss)
        };
        let generator = load(begin.generator, end.generator, self.rss_bytes_max.0);
        let server = begin
            .server
            .zip(end.server)
            .map(|(begin, end)| load(begin, end, self.rss_bytes_max.1));
        (generator, server)
    }
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
