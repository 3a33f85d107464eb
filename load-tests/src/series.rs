//! Course of a run over time: a point per second.
//!
//! A request belongs to the second in which its response came. A pause of the server thus shows as
//! a gap, and the requests that it delayed as a peak behind it. The warm-up is part of a series:
//! figures leave it out, but the series shows whether it was long enough.
//!
//! Memory is bounded: at [`POINTS_MAX`] points a thread joins them in pairs, so that in a run of an
//! hour a point stands for four seconds.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Highest number of points in a series; even, as points are joined in pairs.
pub const POINTS_MAX: usize = 1024;
/// Significant digits of latencies. A plot shows no more than two: 1.2 ms and 1.3 ms differ.
const SIGNIFICANT_DIGITS: u8 = 2;
/// Lowest latency in nanoseconds that differs from none; lower ones would only take memory.
const LATENCY_NANOS_MIN: u64 = 1000;

/// Counts of a thread, second by second.
#[derive(Clone, Debug)]
pub struct Recorder {
    /// Length of an interval in seconds, a power of two.
    interval_seconds: u64,
    intervals: Vec<Interval>,
}

#[derive(Clone, Debug)]
struct Interval {
    acknowledged: u64,
    acknowledged_events: u64,
    failed: u64,
    latency_ns: Histogram<u32>,
}

/// Points in order of time, without gaps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Length of a point in seconds: 1, but more in runs of over a quarter of an hour.
    pub interval_seconds: u64,
    /// Points of the series.
    pub points: Vec<Point>,
}

/// Counts and latencies of one interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Start of the interval in seconds since the window began; negative during the warm-up.
    pub at_seconds: f64,
    /// Length of the interval in seconds; the last one of a run may be shorter.
    pub seconds: f64,
    /// Number of requests acknowledged in the interval.
    pub acknowledged_requests: u64,
    /// Number of events acknowledged in the interval.
    pub acknowledged_events: u64,
    /// Number of requests that failed in the interval.
    pub failed_requests: u64,
    /// Latencies of the acknowledged requests, from when they were due to their complete responses;
    /// `None` without any.
    pub latency: Option<PointLatency>,
}

/// Latencies of an interval in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct PointLatency {
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

/// Times of a run, from which a series is made.
#[derive(Clone, Copy, Debug)]
pub struct RunTiming {
    /// Time from the first due request to the beginning of the window.
    pub warm_up: Duration,
    /// Time from the first due request to the last response.
    pub elapsed: Duration,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            interval_seconds: 1,
            intervals: Vec::new(),
        }
    }
}

impl Interval {
    #[allow(clippy::expect_used, reason = "constants within the library's limits")]
    fn new() -> Self {
        let (low, digits) = (LATENCY_NANOS_MIN, SIGNIFICANT_DIGITS);
        let mut latency_ns = Histogram::new_with_bounds(low, 2 * low, digits).expect("bounds");
        latency_ns.auto(true);
        Self {
            acknowledged: 0,
            acknowledged_events: 0,
            failed: 0,
            latency_ns,
        }
    }

    fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.acknowledged_events += other.acknowledged_events;
        self.failed += other.failed;
        // Auto-resizing histograms accept any value.
        let _ = self.latency_ns.add(&other.latency_ns);
    }
}

impl Recorder {
    /// Counts an acknowledged request with so many events whose response came `at` after the first
    /// due request.
    pub fn acknowledged(&mut self, at: Duration, latency: Duration, events: u64) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if let Some(interval) = self.interval(at) {
            interval.acknowledged += 1;
            interval.acknowledged_events += events;
            let _ = interval.latency_ns.record(nanos);
        }
    }

    /// Counts a request that failed `at` after the first due request.
    pub fn failed(&mut self, at: Duration) {
        if let Some(interval) = self.interval(at) {
            interval.failed += 1;
        }
    }

    fn interval(&mut self, at: Duration) -> Option<&mut Interval> {
        while at.as_secs() / self.interval_seconds >= POINTS_MAX as u64 {
            self.halve();
        }
        let index = usize::try_from(at.as_secs() / self.interval_seconds).ok()?;
        if index >= self.intervals.len() {
            self.intervals.resize_with(index + 1, Interval::new);
        }
        self.intervals.get_mut(index)
    }

    /// Joins the intervals in pairs.
    fn halve(&mut self) {
        self.interval_seconds *= 2;
        let mut joined = Vec::with_capacity(self.intervals.len().div_ceil(2));
        for pair in self.intervals.chunks(2) {
            if let [first, rest @ ..] = pair {
                let mut first = first.clone();
                rest.iter().for_each(|second| first.add(second));
                joined.push(first);
            }
        }
        self.intervals = joined;
    }

    /// Adds the counts of another thread.
    pub fn add(&mut self, other: &Self) {
        let mut other = other.clone();
        while self.interval_seconds < other.interval_seconds {
            self.halve();
        }
        while other.interval_seconds < self.interval_seconds {
            other.halve();
        }
        if self.intervals.len() < other.intervals.len() {
            self.intervals
                .resize_with(other.intervals.len(), Interval::new);
        }
        for (interval, other) in self.intervals.iter_mut().zip(&other.intervals) {
            interval.add(other);
        }
    }

    /// Series of the counts.
    #[must_use]
    pub fn series(&self, timing: RunTiming) -> Series {
        let interval = self.interval_seconds as f64;
        let point = |(index, counted): (usize, &Interval)| {
            let start = index as f64 * interval;
            Point {
                at_seconds: start - timing.warm_up.as_secs_f64(),
                seconds: (timing.elapsed.as_secs_f64() - start).clamp(0.0, interval),
                acknowledged_requests: counted.acknowledged,
                acknowledged_events: counted.acknowledged_events,
                failed_requests: counted.failed,
                latency: PointLatency::of(&counted.latency_ns),
            }
        };
        Series {
            interval_seconds: self.interval_seconds,
            points: self.intervals.iter().enumerate().map(point).collect(),
        }
    }

    /// Last interval that was over `elapsed` after the first due request, alone; nothing if no
    /// request was counted in it or behind it.
    #[must_use]
    pub fn last_whole(&self, elapsed: Duration) -> Self {
        let whole = elapsed.as_secs() / self.interval_seconds;
        let last = whole.checked_sub(1);
        let last = last.and_then(|index| usize::try_from(index).ok());
        let interval = last.and_then(|index| self.intervals.get(index));
        Self {
            interval_seconds: self.interval_seconds,
            intervals: interval.cloned().into_iter().collect(),
        }
    }

    /// Latencies in nanoseconds of each interval, with its beginning and its length.
    pub fn latencies(
        &self,
        timing: RunTiming,
    ) -> impl Iterator<Item = ((Duration, Duration), &Histogram<u32>)> {
        let interval = Duration::from_secs(self.interval_seconds);
        let seconds = self.interval_seconds;
        let starts = (0..).map(move |index: u64| Duration::from_secs(index * seconds));
        starts.zip(&self.intervals).map(move |(start, counted)| {
            let length = timing.elapsed.saturating_sub(start).min(interval);
            ((start, length), &counted.latency_ns)
        })
    }

    /// Counts of a run from its series and the latencies of its points.
    #[must_use]
    pub fn restored(series: &Series, latencies: &[Histogram<u64>]) -> Self {
        let interval = |(point, latency): (&Point, &Histogram<u64>)| {
            let mut interval = Interval {
                acknowledged: point.acknowledged_requests,
                acknowledged_events: point.acknowledged_events,
                failed: point.failed_requests,
                ..Interval::new()
            };
            for value in latency.iter_recorded() {
                let count = u32::try_from(value.count_at_value()).unwrap_or(u32::MAX);
                let _ = interval
                    .latency_ns
                    .record_n(value.value_iterated_to(), count);
            }
            interval
        };
        Self {
            interval_seconds: series.interval_seconds.max(1),
            intervals: series.points.iter().zip(latencies).map(interval).collect(),
        }
    }
}

impl PointLatency {
    fn of(latency_ns: &Histogram<u32>) -> Option<Self> {
        let at = |quantile| latency_ns.value_at_quantile(quantile) as f64 / 1000.0;
        (!latency_ns.is_empty()).then(|| Self {
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: latency_ns.max() as f64 / 1000.0,
        })
    }
}

impl Point {
    /// Number of acknowledged events per second.
    #[must_use]
    pub fn events_per_second(&self) -> f64 {
        if self.seconds > 0.0 {
            self.acknowledged_events as f64 / self.seconds
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hdr::codec;
    use proptest::prelude::*;

    fn timing(elapsed_seconds: u64) -> RunTiming {
        RunTiming {
            warm_up: Duration::from_secs(2),
            elapsed: Duration::from_millis(elapsed_seconds * 1000 + 500),
        }
    }

    #[test]
    fn a_response_belongs_to_the_second_in_which_it_came() {
        let mut recorder = Recorder::default();
        for millis in [100, 900, 3100, 3200, 3300] {
            let at = Duration::from_millis(millis);
            recorder.acknowledged(at, Duration::from_micros(millis), 10);
        }
        recorder.failed(Duration::from_millis(1500));
        let series = recorder.series(timing(3));
        let counts: Vec<_> = series
            .points
            .iter()
            .map(|p| {
                (
                    p.at_seconds,
                    p.seconds,
                    p.acknowledged_events,
                    p.failed_requests,
                )
            })
            .collect();
        let expected = [
            (-2.0, 1.0, 20, 0),
            (-1.0, 1.0, 0, 1),
            (0.0, 1.0, 0, 0),
            (1.0, 0.5, 30, 0),
        ];
        assert_eq!(counts, expected);
        assert_eq!(series.points[3].events_per_second(), 60.0);
        assert_eq!(series.points[1].latency, None);
        let slowest = series.points[0].latency.unwrap().max_us;
        assert!((slowest - 900.0).abs() <= 9.0, "{slowest}");
    }

    #[test]
    fn a_recorder_is_restored_from_its_series_and_latencies() {
        let mut recorder = Recorder::default();
        for (second, micros) in [(0, 150), (0, 900), (2, 70_000), (2, 3)] {
            let latency = Duration::from_micros(micros);
            recorder.acknowledged(Duration::from_secs(second), latency, 10);
        }
        recorder.failed(Duration::from_secs(1));
        let timing = timing(2);
        let series = recorder.series(timing);
        let intervals: Vec<_> = recorder.latencies(timing).collect();
        let lengths: Vec<_> = intervals.iter().map(|((_, length), _)| *length).collect();
        assert_eq!(lengths, [1000, 1000, 500].map(Duration::from_millis));
        let latencies: Vec<_> = intervals
            .iter()
            .map(|(_, latency)| codec::decode(&codec::encode(latency).unwrap()).unwrap())
            .collect();
        let restored = Recorder::restored(&series, &latencies);
        assert_eq!(restored.series(timing), series);
    }

    proptest! {
        #[test]
        fn joining_seconds_and_threads_loses_nothing(
            threads in proptest::collection::vec(
                proptest::collection::vec((0..20_000_u64, any::<bool>()), 0..30),
                1..4,
            ),
        ) {
            let mut all = Recorder::default();
            let (mut acknowledged, mut failed) = (0, 0);
            for requests in &threads {
                let mut recorder = Recorder::default();
                for (second, well) in requests {
                    let at = Duration::from_secs(*second);
                    if *well {
                        recorder.acknowledged(at, Duration::from_secs(*second), 3);
                        acknowledged += 1;
                    } else {
                        recorder.failed(at);
                        failed += 1;
                    }
                }
                all.add(&recorder);
            }
            let series = all.series(timing(20_000));
            prop_assert!(series.points.len() <= POINTS_MAX);
            let sum = |of: fn(&Point) -> u64| series.points.iter().map(of).sum::<u64>();
            prop_assert_eq!(sum(|p| p.acknowledged_requests), acknowledged);
            prop_assert_eq!(sum(|p| p.acknowledged_events), 3 * acknowledged);
            prop_assert_eq!(sum(|p| p.failed_requests), failed);
            for point in series.points {
                let Some(latency) = point.latency else { continue };
                // Each latency was set to the time of its response.
                let end = point.at_seconds + 2.0 + series.interval_seconds as f64;
                prop_assert!(latency.max_us <= end * 1.01e6, "{latency:?} before {end}");
            }
        }
    }
}
