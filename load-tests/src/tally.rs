//! What came of the requests, counted per thread and summed at the end.

use crate::series::Recorder;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longest time that is told apart; longer ones count as this.
const LATENCY_MAX: Duration = Duration::from_secs(600);
/// Three digits: 1.23 ms and 1.24 ms are told apart.
const SIGNIFICANT_DIGITS: u8 = 3;

/// A thread's counts. The thread writes, the progress line reads.
#[derive(Debug)]
pub struct Tally {
    /// Acknowledged requests, warm-up included.
    pub acknowledged: AtomicU64,
    /// Requests without acknowledgement, warm-up included.
    pub failed: AtomicU64,
    /// Acknowledged requests of the window.
    pub window_acknowledged: AtomicU64,
    /// Unacknowledged requests of the window.
    pub window_failed: AtomicU64,
    /// Bytes of the acknowledged requests of the window, heads included.
    pub window_wire_bytes: AtomicU64,
    slow: Mutex<Slow>,
}

#[derive(Debug)]
struct Slow {
    latency: Histogram<u64>,
    send_lag: Histogram<u64>,
    refusal: Histogram<u64>,
    failures: BTreeMap<String, u64>,
    first_failure: Option<String>,
    over_time: Recorder,
}

/// Everything that is not a plain count, summed over threads.
#[derive(Debug)]
pub struct Totals {
    /// Time from when a request was due to its whole answer, in ns; acknowledged requests of the
    /// window only.
    pub latency: Histogram<u64>,
    /// Time from when a request was due to when it was sent, in ns.
    pub send_lag: Histogram<u64>,
    /// Time from when a request was sent to its 503, in ns; those of the window only.
    pub refusal: Histogram<u64>,
    /// Requests of the whole run without acknowledgement, by reason.
    pub failures: BTreeMap<String, u64>,
    /// The first of them in full.
    pub first_failure: Option<String>,
}

/// One acknowledged request.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledged {
    /// Whether it counts for the figures.
    pub in_window: bool,
    /// From the first due request of the run to the whole answer.
    pub at: Duration,
    /// From when it was due to the whole answer.
    pub latency: Duration,
    /// From when it was due to when it was sent.
    pub send_lag: Duration,
    /// Its bytes, head included.
    pub wire_bytes: usize,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            acknowledged: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            window_acknowledged: AtomicU64::new(0),
            window_failed: AtomicU64::new(0),
            window_wire_bytes: AtomicU64::new(0),
            slow: Mutex::new(Slow {
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

impl Tally {
    /// Counts an acknowledged request.
    pub fn acknowledged(&self, request: &Acknowledged) {
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        let mut slow = lock(&self.slow);
        slow.over_time.acknowledged(request.at, request.latency);
        if !request.in_window {
            return;
        }
        self.window_acknowledged.fetch_add(1, Ordering::Relaxed);
        self.window_wire_bytes
            .fetch_add(request.wire_bytes as u64, Ordering::Relaxed);
        slow.latency.saturating_record(nanos(request.latency));
        slow.send_lag.saturating_record(nanos(request.send_lag));
    }

    /// Counts a request without acknowledgement that was given up `at` after the first due
    /// request of the run. `reason` groups, `detail` is shown once.
    pub fn failed(&self, in_window: bool, at: Duration, reason: &str, detail: &str) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.window_failed
            .fetch_add(u64::from(in_window), Ordering::Relaxed);
        let mut slow = lock(&self.slow);
        slow.over_time.failed(at);
        if slow.first_failure.is_none() {
            slow.first_failure = Some(format!("{reason}: {detail}"));
        }
        *slow.failures.entry(reason.to_owned()).or_default() += 1;
    }

    /// Notes how long a request of the window waited to be told that it should come again later;
    /// it is counted by [`Self::failed`].
    pub fn refused(&self, took: Duration) {
        lock(&self.slow).refusal.saturating_record(nanos(took));
    }

    /// The latencies so far.
    #[must_use]
    pub fn latency(&self) -> Histogram<u64> {
        lock(&self.slow).latency.clone()
    }
}

impl Totals {
    /// Sums threads.
    #[must_use]
    pub fn of(tallies: &[std::sync::Arc<Tally>]) -> Self {
        let mut totals = Self {
            latency: histogram(),
            send_lag: histogram(),
            refusal: histogram(),
            failures: BTreeMap::new(),
            first_failure: None,
        };
        for tally in tallies {
            let slow = lock(&tally.slow);
            // Same bounds, so nothing can be out of range.
            let _ = totals.latency.add(&slow.latency);
            let _ = totals.send_lag.add(&slow.send_lag);
            let _ = totals.refusal.add(&slow.refusal);
            for (reason, count) in &slow.failures {
                *totals.failures.entry(reason.clone()).or_default() += count;
            }
            if totals.first_failure.is_none() {
                totals.first_failure.clone_from(&slow.first_failure);
            }
        }
        totals
    }

    /// Counts requests of the window that were due and never sent; the first of them had waited so
    /// long when the run ended. Nobody knows when they would have been answered: they rank behind
    /// all that were, so that leaving them out makes no percentile better.
    pub fn unsent(&mut self, requests: u64, waited: Duration) {
        if requests == 0 {
            // A histogram would take the value for its maximum all the same.
            return;
        }
        for histogram in [&mut self.latency, &mut self.send_lag] {
            let slowest = histogram.max().max(nanos(waited));
            histogram.saturating_record_n(slowest, requests);
        }
    }
}

/// How all threads together went over time.
#[must_use]
pub fn over_time(tallies: &[std::sync::Arc<Tally>]) -> Recorder {
    let mut sum = Recorder::default();
    for tally in tallies {
        sum.add(&lock(&tally.slow).over_time);
    }
    sum
}

/// An empty histogram with our bounds.
#[must_use]
#[allow(clippy::expect_used, reason = "constants within the library's limits")]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, nanos(LATENCY_MAX), SIGNIFICANT_DIGITS).expect("valid bounds")
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A count is never left half-written, so a poisoned lock is as good as any.
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
            at: Duration::from_secs(1),
            latency: Duration::from_millis(millis),
            send_lag: Duration::ZERO,
            wire_bytes: 10,
        }
    }

    #[test]
    fn the_warm_up_is_counted_but_not_measured() {
        let tally = Tally::default();
        tally.acknowledged(&acknowledged(500, false));
        tally.acknowledged(&acknowledged(5, true));
        tally.failed(false, Duration::ZERO, "status 503", "busy");
        assert_eq!(tally.acknowledged.load(Ordering::Relaxed), 2);
        assert_eq!(tally.window_acknowledged.load(Ordering::Relaxed), 1);
        assert_eq!(tally.window_wire_bytes.load(Ordering::Relaxed), 10);
        assert_eq!(tally.window_failed.load(Ordering::Relaxed), 0);
        assert_eq!(tally.latency().len(), 1);
    }

    #[test]
    fn threads_are_summed_with_their_failures() {
        let tallies: Vec<_> = (0..2).map(|_| Arc::new(Tally::default())).collect();
        for (millis, tally) in (1..).zip(&tallies) {
            tally.acknowledged(&acknowledged(millis, true));
            tally.failed(true, Duration::ZERO, "status 503", "busy");
        }
        tallies[1].failed(true, Duration::ZERO, "timeout", "30 s");
        tallies[1].refused(Duration::from_millis(3));
        let totals = Totals::of(&tallies);
        assert_eq!(totals.latency.len(), 2);
        assert_eq!(totals.refusal.len(), 1);
        assert_eq!(totals.failures["status 503"], 2);
        assert_eq!(totals.failures["timeout"], 1);
        assert_eq!(totals.first_failure.as_deref(), Some("status 503: busy"));
    }

    #[test]
    fn what_was_never_sent_ranks_behind_what_was() {
        for (waited_millis, slowest_millis) in [(2, 4), (50, 50)] {
            let tally = Arc::new(Tally::default());
            for millis in 1..=4 {
                tally.acknowledged(&acknowledged(millis, true));
            }
            let mut totals = Totals::of(&[tally]);
            totals.unsent(4, Duration::from_millis(waited_millis));
            assert_eq!((totals.latency.len(), totals.send_lag.len()), (8, 8));
            let millis = |quantile| totals.latency.value_at_quantile(quantile) / 999_000;
            assert_eq!((millis(0.5), millis(0.6)), (4, slowest_millis));
        }
    }

    #[test]
    fn none_unsent_change_nothing() {
        let mut totals = Totals::of(&[]);
        totals.unsent(0, Duration::from_secs(1));
        assert_eq!((totals.latency.len(), totals.latency.max()), (0, 0));
    }

    #[test]
    fn a_latency_past_the_bound_counts_as_the_bound() {
        let tally = Tally::default();
        tally.acknowledged(&acknowledged(10_000_000, true));
        assert!(tally.latency().max() >= nanos(LATENCY_MAX));
    }
}
