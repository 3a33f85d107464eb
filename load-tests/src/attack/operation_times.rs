//! Response times of operations, as their sender saw them.

use super::lock::lock;
use crate::digits::counted;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

/// Response times of all operations in some rounds.
#[derive(Debug, Default)]
pub(super) struct ResponseTimes(Mutex<BTreeMap<String, OperationTimes>>);

/// Response times of one operation, those of requests among them that were given up.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct OperationTimes {
    /// Number of responses.
    pub count: u32,
    /// Sum of the response times in milliseconds.
    pub all_ms: f64,
    /// Longest response time in milliseconds.
    pub max_ms: f64,
    /// Seconds within which the API's document promises a response.
    pub promised_seconds: f64,
}

impl OperationTimes {
    /// Longest response time in seconds.
    #[must_use]
    pub fn max_seconds(&self) -> f64 {
        self.max_ms / 1e3
    }

    /// Seconds by which the slowest response was later than promised; negative if it was in time.
    fn late_seconds(&self) -> f64 {
        self.max_seconds() - self.promised_seconds
    }
}

impl fmt::Display for OperationTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mean_ms = self.all_ms / f64::from(self.count.max(1));
        let (count, max_ms) = (counted(self.count.into(), "time"), self.max_ms);
        write!(f, "{count}, {mean_ms:.0} ms, {max_ms:.0} at the most")
    }
}

impl ResponseTimes {
    /// Records a response time.
    pub(super) fn record(&self, operation: &str, promised_seconds: f64, duration: Duration) {
        let mut times = lock(&self.0);
        let of_it = times.entry(operation.to_owned()).or_default();
        let ms = duration.as_secs_f64() * 1e3;
        of_it.count += 1;
        of_it.all_ms += ms;
        of_it.max_ms = of_it.max_ms.max(ms);
        of_it.promised_seconds = promised_seconds;
    }

    /// Times of the operation that was nearest to its promised time, or furthest beyond it.
    pub(super) fn latest(&self) -> OperationTimes {
        let times = lock(&self.0).values().copied().collect::<Vec<_>>();
        let latest = times
            .into_iter()
            .max_by(|one, other| one.late_seconds().total_cmp(&other.late_seconds()));
        latest.unwrap_or_default()
    }

    /// The operations with the slowest responses, at most so many, slowest response first.
    pub(super) fn slowest(&self, operations_max: usize) -> Vec<(String, OperationTimes)> {
        let mut all: Vec<_> = lock(&self.0).clone().into_iter().collect();
        all.sort_by(|(_, one), (_, other)| other.max_ms.total_cmp(&one.max_ms));
        all.truncate(operations_max);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_sorted_by_their_slowest_response() {
        let times = ResponseTimes::default();
        for (operation, ms) in [("a", 1), ("b", 30), ("b", 10), ("c", 20)] {
            times.record(operation, 30.0, Duration::from_millis(ms));
        }
        let slowest = times.slowest(2);
        let names: Vec<_> = slowest.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["b", "c"]);
        let (_, took) = &slowest[0];
        assert_eq!((took.count, took.all_ms, took.max_ms), (2, 40.0, 30.0));
    }

    #[test]
    fn the_latest_operation_is_measured_by_what_is_promised() {
        let times = ResponseTimes::default();
        assert_eq!(times.latest().count, 0);
        for (operation, promised, seconds) in [("a", 30.0, 20), ("b", 5.0, 6), ("c", 30.0, 1)] {
            times.record(operation, promised, Duration::from_secs(seconds));
        }
        let latest = times.latest();
        assert_eq!((latest.max_seconds(), latest.promised_seconds), (6.0, 5.0));
    }
}
