//! Statistics of requests, counted per thread and summed at the end.

use crate::series::{Point, Recorder, RunTiming};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longest latency that is recorded; longer ones count as this.
const LATENCY_MAX: Duration = Duration::from_secs(600);
/// Significant digits of a latency. With three, 1.23 ms and 1.24 ms differ.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Statistics of a thread. The thread writes them, the progress line reads them.
#[derive(Debug)]
pub struct WorkerStats {
    /// Acknowledged requests, warm-up included.
    pub acknowledged: AtomicU64,
    /// Events of the acknowledged requests, warm-up included.
    pub acknowledged_events: AtomicU64,
    /// Requests without acknowledgement, warm-up included.
    pub failed: AtomicU64,
    /// Acknowledged requests in the window.
    pub window_acknowledged: AtomicU64,
    /// Events of the acknowledged requests in the window.
    pub window_acknowledged_events: AtomicU64,
    /// Unacknowledged requests in the window.
    pub window_failed: AtomicU64,
    /// Bytes of the acknowledged requests in the window, heads included.
    pub window_wire_bytes: AtomicU64,
    recorded: Mutex<Recorded>,
}

#[derive(Debug)]
struct Recorded {
    latency: Histogram<u64>,
    send_lag: Histogram<u64>,
    refusal: Histogram<u64>,
    failures: BTreeMap<String, u64>,
    first_failure: Option<String>,
    over_time: Recorder,
}

/// Sums over threads of everything but the plain counts.
#[derive(Debug)]
pub struct Totals {
    /// Latencies in ns, from when a request was due to its complete response; acknowledged requests
    /// of the window only.
    pub latency: Histogram<u64>,
    /// Lags in ns, from when a request was due to when it was sent.
    pub send_lag: Histogram<u64>,
    /// Times in ns from when a request was sent to its 503; of the window only.
    pub refusal: Histogram<u64>,
    /// Number of failed requests of the whole run, by reason.
    pub failures: BTreeMap<String, u64>,
    /// The first failure in full.
    pub first_failure: Option<String>,
}

/// An acknowledged request.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledged {
    /// True if the request counts for the figures.
    pub in_window: bool,
    /// Number of events in the request.
    pub events: u32,
    /// Time from the run's first due request to the complete response.
    pub at: Duration,
    /// Time from when the request was due to the complete response.
    pub latency: Duration,
    /// Time from when the request was due to when it was sent.
    pub send_lag: Duration,
    /// Bytes of the request, head included.
    pub wire_bytes: usize,
}

impl Default for WorkerStats {
    fn default() -> Self {
        Self {
            acknowledged: AtomicU64::new(0),
            acknowledged_events: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            window_acknowledged: AtomicU64::new(0),
            window_acknowledged_events: AtomicU64::new(0),
            window_failed: AtomicU64::new(0),
            window_wire_bytes: AtomicU64::new(0),
            recorded: Mutex::new(Recorded {
                latency: histogram(),
                send_lag: histogram(),
                refusal: histogram(),
                failures: BTreeMap::new(),
                first_failure: None,
                over_time: Recorder::default(),
            }),
        }
    }
}

impl WorkerStats {
    /// Counts an acknowledged request.
    pub fn acknowledged(&self, request: &Acknowledged) {
        let events = u64::from(request.events);
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        self.acknowledged_events
            .fetch_add(events, Ordering::Relaxed);
        let mut recorded = lock(&self.recorded);
        recorded
            .over_time
            .acknowledged(request.at, request.latency, events);
        if !request.in_window {
            return;
        }
        self.window_acknowledged.fetch_add(1, Ordering::Relaxed);
        self.window_acknowledged_events
            .fetch_add(events, Ordering::Relaxed);
        self.window_wire_bytes
            .fetch_add(request.wire_bytes as u64, Ordering::Relaxed);
        recorded.latency.saturating_record(nanos(request.latency));
        recorded.send_lag.saturating_record(nanos(request.send_lag));
    }

    /// Counts a failed request, `at` after the run's first due request. `reason` groups failures,
    /// `detail` is shown once.
    pub fn failed(&self, in_window: bool, at: Duration, reason: &str, detail: &str) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.window_failed
            .fetch_add(u64::from(in_window), Ordering::Relaxed);
        let mut recorded = lock(&self.recorded);
        recorded.over_time.failed(at);
        if recorded.first_failure.is_none() {
            recorded.first_failure = Some(format!("{reason}: {detail}"));
        }
        *recorded.failures.entry(reason.to_owned()).or_default() += 1;
    }

    /// Records the time until a request of the window was refused with 503; [`Self::failed`] counts
    /// the request.
    pub fn refused(&self, took: Duration) {
        lock(&self.recorded).refusal.saturating_record(nanos(took));
    }

    /// Latencies so far.
    #[must_use]
    pub fn latency(&self) -> Histogram<u64> {
        lock(&self.recorded).latency.clone()
    }
}

impl Totals {
    /// Sums the statistics of all threads.
    #[must_use]
    pub fn of(all_stats: &[std::sync::Arc<WorkerStats>]) -> Self {
        let mut totals = Self {
            latency: histogram(),
            send_lag: histogram(),
            refusal: histogram(),
            failures: BTreeMap::new(),
            first_failure: None,
        };
        for stats in all_stats {
            let recorded = lock(&stats.recorded);
            // All histograms have the same bounds, so no value is out of range.
            let _ = totals.latency.add(&recorded.latency);
            let _ = totals.send_lag.add(&recorded.send_lag);
            let _ = totals.refusal.add(&recorded.refusal);
            for (reason, count) in &recorded.failures {
                *totals.failures.entry(reason.clone()).or_default() += count;
            }
            if totals.first_failure.is_none() {
                totals.first_failure.clone_from(&recorded.first_failure);
            }
        }
        totals
    }

    /// Counts requests of the window that were due and never sent; `waited` is how long the first
    /// of them had waited when the run ended.
    ///
    /// Nobody knows when they would have been answered. They rank behind all responses, so that
    /// leaving them out makes no percentile better.
    pub fn unsent(&mut self, requests: u64, waited: Duration) {
        if requests == 0 {
            // A histogram would otherwise take the value as its maximum.
            return;
        }
        for histogram in [&mut self.latency, &mut self.send_lag] {
            let slowest = histogram.max().max(nanos(waited));
            histogram.saturating_record_n(slowest, requests);
        }
    }
}

/// Course of all threads together over time.
#[must_use]
pub fn over_time(all_stats: &[std::sync::Arc<WorkerStats>]) -> Recorder {
    let mut sum = Recorder::default();
    for stats in all_stats {
        sum.add(&lock(&stats.recorded).over_time);
    }
    sum
}

/// Last whole second of all threads together, `elapsed` after the first due request; in long runs
/// the last whole interval of the series.
#[must_use]
pub fn last_whole(all_stats: &[std::sync::Arc<WorkerStats>], elapsed: Duration) -> Option<Point> {
    let mut sum = Recorder::default();
    for stats in all_stats {
        sum.add(&lock(&stats.recorded).over_time.last_whole(elapsed));
    }
    let timing = RunTiming {
        warm_up: Duration::ZERO,
        elapsed: Duration::MAX,
    };
    sum.series(timing).points.first().copied()
}

/// Creates an empty histogram with the bounds of this module.
#[must_use]
#[allow(clippy::expect_used, reason = "constants within the library's limits")]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, nanos(LATENCY_MAX), SIGNIFICANT_DIGITS).expect("valid bounds")
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Locks a mutex; a count is never left half-written, so a poisoned lock is ignored.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn acknowledged(millis: u64, in_window: bool) -> Acknowledged {
        Acknowledged {
            in_window,
            events: 20,
            at: Duration::from_secs(1),
            latency: Duration::from_millis(millis),
            send_lag: Duration::ZERO,
            wire_bytes: 10,
        }
    }

    #[test]
    fn the_warm_up_is_counted_but_not_measured() {
        let stats = WorkerStats::default();
        stats.acknowledged(&acknowledged(500, false));
        stats.acknowledged(&acknowledged(5, true));
        stats.failed(false, Duration::ZERO, "status 503", "busy");
        assert_eq!(stats.acknowledged.load(Ordering::Relaxed), 2);
        assert_eq!(stats.acknowledged_events.load(Ordering::Relaxed), 40);
        assert_eq!(stats.window_acknowledged.load(Ordering::Relaxed), 1);
        assert_eq!(stats.window_acknowledged_events.load(Ordering::Relaxed), 20);
        assert_eq!(stats.window_wire_bytes.load(Ordering::Relaxed), 10);
        assert_eq!(stats.window_failed.load(Ordering::Relaxed), 0);
        assert_eq!(stats.latency().len(), 1);
    }

    #[test]
    fn threads_are_summed_with_their_failures() {
        let all_stats: Vec<_> = (0..2).map(|_| Arc::new(WorkerStats::default())).collect();
        for (millis, stats) in (1..).zip(&all_stats) {
            stats.acknowledged(&acknowledged(millis, true));
            stats.failed(true, Duration::ZERO, "status 503", "busy");
        }
        all_stats[1].failed(true, Duration::ZERO, "timeout", "30 s");
        all_stats[1].refused(Duration::from_millis(3));
        let totals = Totals::of(&all_stats);
        assert_eq!(totals.latency.len(), 2);
        assert_eq!(totals.refusal.len(), 1);
        assert_eq!(totals.failures["status 503"], 2);
        assert_eq!(totals.failures["timeout"], 1);
        assert_eq!(totals.first_failure.as_deref(), Some("status 503: busy"));
    }

    #[test]
    fn unsent_requests_rank_behind_all_responses() {
        for (waited_millis, slowest_millis) in [(2, 4), (50, 50)] {
            let stats = Arc::new(WorkerStats::default());
            for millis in 1..=4 {
                stats.acknowledged(&acknowledged(millis, true));
            }
            let mut totals = Totals::of(&[stats]);
            totals.unsent(4, Duration::from_millis(waited_millis));
            assert_eq!((totals.latency.len(), totals.send_lag.len()), (8, 8));
            let millis = |quantile| totals.latency.value_at_quantile(quantile) / 999_000;
            assert_eq!((millis(0.5), millis(0.6)), (4, slowest_millis));
        }
    }

    #[test]
    fn zero_unsent_requests_change_nothing() {
        let mut totals = Totals::of(&[]);
        totals.unsent(0, Duration::from_secs(1));
        assert_eq!((totals.latency.len(), totals.latency.max()), (0, 0));
    }

    #[test]
    fn the_last_whole_second_is_that_of_all_threads() {
        let all_stats: Vec<_> = (0..2).map(|_| Arc::new(WorkerStats::default())).collect();
        for (millis, stats) in (1..).zip(&all_stats) {
            stats.acknowledged(&acknowledged(millis, true));
        }
        for (seconds, events) in [(0, None), (1, Some(0.0)), (2, Some(40.0)), (9, None)] {
            let elapsed = Duration::from_millis(seconds * 1000 + 500);
            let point = last_whole(&all_stats, elapsed);
            let rate = point.map(|point| point.events_per_second());
            assert_eq!(rate, events, "{seconds}");
        }
        let latency = last_whole(&all_stats, Duration::from_secs(2))
            .unwrap()
            .latency;
        let max_us = latency.unwrap().max_us;
        assert!((2000.0..2020.0).contains(&max_us), "{max_us}");
    }

    #[test]
    fn a_latency_past_the_bound_counts_as_the_bound() {
        let stats = WorkerStats::default();
        stats.acknowledged(&acknowledged(10_000_000, true));
        assert!(stats.latency().max() >= nanos(LATENCY_MAX));
    }
}
