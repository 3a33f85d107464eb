//! Figures of a run.

use crate::digits::grouped;
use crate::plan::Plan;
use crate::resources::ResourcePoint;
use crate::series::Series;
use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use hdrhistogram::iterators::IterationValue;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Figures of a run. Rates and latencies are those of the window after the warm-up; the counts of
/// `run` cover everything sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// Id of the run, as in its uuids.
    pub run_id: String,
    /// Time in UTC when the first request was due; empty in files from before it was recorded.
    #[serde(default)]
    pub started_at: String,
    /// The command line, without keys; empty when no command line made the run.
    #[serde(default)]
    pub command: String,
    /// Plan of the run.
    pub plan: Plan,
    /// Counts of the whole run, warm-up included.
    pub run: Counts,
    /// Counts of the window.
    pub window: Counts,
    /// Length of the window in seconds.
    pub window_seconds: f64,
    /// Number of acknowledged events per second.
    pub events_per_second: f64,
    /// Number of acknowledged requests per second.
    pub requests_per_second: f64,
    /// Bytes of acknowledged requests per second, as sent.
    pub wire_bytes_per_second: f64,
    /// Latency from when a request was due to its complete response. An unsent request counts as
    /// the slowest response, or as the time it had waited if that is more.
    pub latency: Percentiles,
    /// Distribution of the latency in finer steps, which halve towards the slowest.
    #[serde(default)]
    pub latency_distribution: Vec<Quantile>,
    /// Lag from when a request was due to when it was sent. In an open loop a high lag means that
    /// all connections were busy, or that the generator was too slow. Unsent requests count as in
    /// the latency.
    pub send_lag: Percentiles,
    /// Time from when a request was sent to its 503.
    #[serde(default)]
    pub refusal: Percentiles,
    /// Number of failed requests of the whole run, by reason.
    pub failures: BTreeMap<String, u64>,
    /// The first failure.
    pub first_failure: Option<String>,
    /// Resources of the generator during the window.
    pub generator: Load,
    /// Resources of the server during the window, if its process was named.
    pub server: Option<Load>,
    /// Course of the run over time, warm-up included.
    #[serde(default)]
    pub series: Series,
    /// CPU and memory over time, warm-up included.
    #[serde(default)]
    pub resources: Vec<ResourcePoint>,
    /// Histograms of the window and of each second, as an HdrHistogram log; empty in files from
    /// before there was one.
    #[serde(default)]
    pub hdr_log: String,
}

/// Latency that a share of the requests did not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantile {
    /// Share of the requests, 0 to 1.
    pub quantile: f64,
    /// Latency in microseconds.
    pub latency_us: f64,
}

/// Steps of a distribution in which the remaining distance to 1 halves.
const STEPS_PER_HALF: u32 = 5;

impl Quantile {
    /// Quantiles of a histogram in nanoseconds.
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

/// Numbers of requests and events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests answered with 200 whose batch was stored whole.
    pub acknowledged_requests: u64,
    /// Events in the acknowledged requests.
    pub acknowledged_events: u64,
    /// Requests without acknowledgement.
    pub failed_requests: u64,
    /// Requests of an open loop that were due and never sent, as no connection was free before the
    /// end. Any such request means that the rate was not kept up. Files from before they were
    /// counted have none: all due requests were sent then, however late.
    #[serde(default)]
    pub unsent_requests: u64,
}

/// CPU and memory used by a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// CPU time in seconds.
    pub cpu_seconds: f64,
    /// CPU seconds per second.
    pub cores: f64,
    /// Acknowledged events per CPU second.
    pub events_per_core_second: f64,
    /// Resident memory at the end, in bytes.
    pub rss_bytes: u64,
    /// Highest resident memory seen, in bytes.
    pub rss_bytes_max: u64,
}

/// Percentiles of times in microseconds.
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
    /// Percentiles of a histogram in nanoseconds.
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

impl Counts {
    /// Counts those of `due` requests as unsent that were neither acknowledged nor failed. Nothing
    /// is due in a closed loop; a stopped run still sends the request that it waited for.
    #[must_use]
    pub fn with_due(self, due: u64) -> Self {
        let sent = self.acknowledged_requests + self.failed_requests;
        Self {
            unsent_requests: due.saturating_sub(sent),
            ..self
        }
    }
}

impl Load {
    /// Load of a process that used `cpu_seconds` in a window.
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
    /// Warning about an open loop whose rate was not kept up.
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
    /// The file cannot be read, or is not a summary.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} is not a summary of a run", path.display()))
    }

    /// Writes the histograms as an HdrHistogram log.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_hdr_log(&self, path: &Path) -> Result<()> {
        std::fs::write(path, &self.hdr_log)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Writes the summary as JSON.
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
        let mut histogram = crate::worker_stats::histogram();
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
        let mut histogram = crate::worker_stats::histogram();
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
    fn a_window_of_no_time_gives_zero_rates() {
        assert_eq!(Load::new(0.0, 0.0, 5, (0, 0)).events_per_core_second, 0.0);
        assert_eq!(Percentiles::of(&crate::worker_stats::histogram()).count, 0);
    }
}
