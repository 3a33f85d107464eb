//! The figures of a run.

use crate::plan::Plan;
use crate::report::grouped;
use crate::resources::ResourcePoint;
use crate::series::Series;
use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use hdrhistogram::iterators::IterationValue;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// What a run gave. Rates and latencies are those of the window after the warm-up; the counts of
/// `run` are of everything sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// The run's id, as in its uuids.
    pub run_id: String,
    /// When the first request was due, in UTC. Empty in files from before it was noted.
    #[serde(default)]
    pub started_at: String,
    /// The command line, without keys; empty when no command line made the run.
    #[serde(default)]
    pub command: String,
    /// What was asked for.
    pub plan: Plan,
    /// Everything sent, warm-up included.
    pub run: Counts,
    /// What counts for the figures.
    pub window: Counts,
    /// Length of the window in seconds.
    pub window_seconds: f64,
    /// Acknowledged events per second.
    pub events_per_second: f64,
    /// Acknowledged requests per second.
    pub requests_per_second: f64,
    /// Bytes of acknowledged requests per second, as sent.
    pub wire_bytes_per_second: f64,
    /// From when a request was due to its whole answer. What was never sent counts as the slowest
    /// that was answered, or as how long it had waited if that is more.
    pub latency: Percentiles,
    /// The same in finer steps, which halve towards the slowest.
    #[serde(default)]
    pub latency_distribution: Vec<Quantile>,
    /// From when a request was due to when it was sent; in an open loop large values mean that
    /// all connections were waiting, or that the generator was too slow. What was never sent counts
    /// as in the latency.
    pub send_lag: Percentiles,
    /// From when a request was sent to its 503.
    #[serde(default)]
    pub refusal: Percentiles,
    /// Unacknowledged requests of the whole run by reason.
    pub failures: BTreeMap<String, u64>,
    /// The first of them.
    pub first_failure: Option<String>,
    /// What the generator itself used during the window.
    pub generator: Load,
    /// What the server used during the window, if its process was named.
    pub server: Option<Load>,
    /// How the run went over time, warm-up included.
    #[serde(default)]
    pub series: Series,
    /// CPU and memory over time, likewise.
    #[serde(default)]
    pub resources: Vec<ResourcePoint>,
}

/// A latency that a part of the requests did not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantile {
    /// The part, 0 to 1.
    pub quantile: f64,
    /// The latency in microseconds.
    pub latency_us: f64,
}

/// Steps in which a distribution goes half the way that is left to 1.
const STEPS_PER_HALF: u32 = 5;

impl Quantile {
    /// Of a histogram in nanoseconds.
    #[must_use]
    pub fn all(histogram: &Histogram<u64>) -> Vec<Self> {
        let quantile = |step: IterationValue<u64>| Self {
            quantile: step.quantile_iterated_to(),
            latency_us: step.value_iterated_to() as f64 / 1000.0,
        };
        histogram
            .iter_quantiles(STEPS_PER_HALF)
            .map(quantile)
            .collect()
    }
}

/// Requests and events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests that were answered 200 and stored whole.
    pub acknowledged_requests: u64,
    /// The events in them.
    pub acknowledged_events: u64,
    /// Requests that were not.
    pub failed_requests: u64,
    /// Requests of an open loop that were due and never sent, as no connection was free before the
    /// end: where there are any, the rate was not kept up. Files from before they were counted have
    /// none, as all was sent then, however late.
    #[serde(default)]
    pub unsent_requests: u64,
}

/// CPU and memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// CPU seconds.
    pub cpu_seconds: f64,
    /// CPU seconds per second.
    pub cores: f64,
    /// Acknowledged events per CPU second.
    pub events_per_core_second: f64,
    /// Resident memory at the end, in bytes.
    pub rss_bytes: u64,
    /// The most of it that was seen, in bytes.
    pub rss_bytes_max: u64,
}

/// Times in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Percentiles {
    pub count: u64,
    pub mean_us: f64,
    pub min_us: f64,
    pub p50_us: f64,
    pub p75_us: f64,
    pub p90_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub p9999_us: f64,
    pub max_us: f64,
}

impl Percentiles {
    /// Of a histogram in nanoseconds.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
        Self {
            count: histogram.len(),
            mean_us: histogram.mean() / 1000.0,
            min_us: histogram.min() as f64 / 1000.0,
            p50_us: at(0.5),
            p75_us: at(0.75),
            p90_us: at(0.9),
            p95_us: at(0.95),
            p99_us: at(0.99),
            p999_us: at(0.999),
            p9999_us: at(0.9999),
            max_us: histogram.max() as f64 / 1000.0,
        }
    }
}

impl Load {
    /// Of a process that used `cpu_seconds` in a window.
    #[must_use]
    pub fn new(cpu_seconds: f64, window_seconds: f64, events: u64, rss: (u64, u64)) -> Self {
        let per = |value: f64, of: f64| if of > 0.0 { value / of } else { 0.0 };
        Self {
            cpu_seconds,
            cores: per(cpu_seconds, window_seconds),
            events_per_core_second: per(events as f64, cpu_seconds),
            rss_bytes: rss.0,
            rss_bytes_max: rss.1,
        }
    }
}

impl Summary {
    /// What is to be said of an open loop whose rate was not kept up.
    #[must_use]
    pub fn shortfall(&self) -> Option<String> {
        let unsent = self.run.unsent_requests;
        let sent = self.run.acknowledged_requests + self.run.failed_requests;
        (unsent > 0).then(|| {
            format!(
                "The rate was not kept up: {} of {} requests that were due were not sent. In the \
                 latencies they count as the slowest.",
                grouped(unsent as f64),
                grouped((sent + unsent) as f64)
            )
        })
    }

    /// Reads a file written by [`Self::write`].
    ///
    /// # Errors
    /// Unreadable, or not a summary.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} is not a summary of a run", path.display()))
    }

    /// Writes it as JSON.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut json = serde_json::to_vec_pretty(self).context("summary")?;
        json.push(b'\n');
        std::fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_in_microseconds() {
        let mut histogram = crate::tally::histogram();
        for micros in 1..=1000_u64 {
            histogram.record(micros * 1000).unwrap();
        }
        let percentiles = Percentiles::of(&histogram);
        assert_eq!(percentiles.count, 1000);
        for (value, expected) in [
            (percentiles.min_us, 1.0),
            (percentiles.p50_us, 500.0),
            (percentiles.p99_us, 990.0),
            (percentiles.max_us, 1000.0),
        ] {
            assert!(
                (value - expected).abs() <= expected / 1000.0,
                "{value} {expected}"
            );
        }
    }

    #[test]
    fn the_distribution_grows_finer_towards_the_slowest() {
        let mut histogram = crate::tally::histogram();
        for micros in 1..=1000_u64 {
            histogram.record(micros * 1000).unwrap();
        }
        let distribution = Quantile::all(&histogram);
        for point in &distribution {
            let expected = (point.quantile * 1000.0).ceil().max(1.0);
            let error = (point.latency_us - expected).abs();
            assert!(error <= 1.0 + expected / 1000.0, "{point:?} {expected}");
        }
        let last = distribution.last().unwrap();
        assert_eq!(last.quantile, 1.0);
        assert!(distribution.is_sorted_by(|a, b| a.quantile <= b.quantile));
        let tail = distribution.iter().filter(|point| point.quantile > 0.99);
        assert!(tail.count() > 10);
    }

    #[test]
    fn a_file_from_before_there_were_series_can_be_read() {
        let mut old = serde_json::json!({
            "run_id": "0", "run": Counts::default(), "window": Counts::default(),
            "window_seconds": 1.0, "events_per_second": 1.0, "requests_per_second": 1.0,
            "wire_bytes_per_second": 1.0, "latency": Percentiles::default(),
            "send_lag": Percentiles::default(), "failures": {}, "generator": Load::default(),
        });
        let mut plan = serde_json::to_value(Plan::new("http://h", "key")).unwrap();
        for newer in ["projects", "trust"] {
            plan.as_object_mut().unwrap().remove(newer).unwrap();
        }
        old["plan"] = plan;
        for counts in ["run", "window"] {
            let counts = old[counts].as_object_mut().unwrap();
            counts.remove("unsent_requests").unwrap();
        }
        let read: Summary = serde_json::from_value(old).unwrap();
        assert_eq!(read.plan.keys.projects(), 1);
        assert_eq!(read.series.points, []);
        assert_eq!(read.shortfall(), None);
    }

    #[test]
    fn no_time_is_not_a_division_by_zero() {
        assert_eq!(Load::new(0.0, 0.0, 5, (0, 0)).events_per_core_second, 0.0);
        assert_eq!(Percentiles::of(&crate::tally::histogram()).count, 0);
    }
}
