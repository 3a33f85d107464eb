//! Figures of a run in Prometheus' text format, in a file for node_exporter's textfile collector.
//!
//! The file is replaced as a whole, about once a second while the run lasts and at its end, so that
//! no reader sees half of it.

use crate::run::Progress;
use crate::summary::{Counts, Percentiles, Summary};
use anyhow::{Context, Result};
use metrics::{counter, describe_counter, describe_gauge, gauge, with_local_recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const REQUESTS: &str = "millrace_load_requests_total";
const EVENTS: &str = "millrace_load_acknowledged_events_total";
const EVENTS_PER_SECOND: &str = "millrace_load_events_per_second";
const LATENCY: &str = "millrace_load_latency_seconds";
const RUNNING: &str = "millrace_load_running";

/// Shortest time between two writings while a run lasts.
const INTERVAL: Duration = Duration::from_secs(1);

/// File with the metrics of a run.
#[derive(Debug)]
pub struct PrometheusFile {
    path: PathBuf,
    recorder: PrometheusRecorder,
    written: Instant,
}

impl PrometheusFile {
    /// Creates the file, of a run that begins.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        let file = Self {
            path: path.to_owned(),
            recorder: PrometheusBuilder::new().build_recorder(),
            written: Instant::now(),
        };
        with_local_recorder(&file.recorder, || {
            describe();
            set_requests(&Counts::default());
            gauge!(RUNNING).set(1.0);
        });
        file.write()?;
        Ok(file)
    }

    /// Writes the progress of the run, if the last writing was a second ago.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn progress(&mut self, progress: &Progress) -> Result<()> {
        if self.written.elapsed() < INTERVAL {
            return Ok(());
        }
        self.written = Instant::now();
        with_local_recorder(&self.recorder, || {
            set_requests(&Counts {
                acknowledged_requests: progress.acknowledged_requests,
                acknowledged_events: progress.acknowledged_events,
                failed_requests: progress.failed_requests,
                unsent_requests: 0,
            });
            gauge!(EVENTS_PER_SECOND).set(progress.events_per_second);
            if let Some(latency) = progress.latency {
                set_latency("0.5", latency.p50_us);
                set_latency("0.99", latency.p99_us);
            }
        });
        self.write()
    }

    /// Writes the results of the run; rates and latencies are those of its window.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&self, summary: &Summary) -> Result<()> {
        with_local_recorder(&self.recorder, || {
            set_requests(&summary.run);
            gauge!(EVENTS_PER_SECOND).set(summary.events_per_second);
            for (quantile, micros) in quantiles(&summary.latency) {
                set_latency(quantile, micros);
            }
            gauge!(RUNNING).set(0.0);
        });
        self.write()
    }

    /// Replaces the file; the collector reads no file with this ending in between.
    fn write(&self) -> Result<()> {
        let mut new = self.path.clone().into_os_string();
        new.push(".new");
        let text = self.recorder.handle().render();
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &self.path));
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

fn describe() {
    describe_counter!(REQUESTS, "Requests of the run, by outcome.");
    describe_counter!(EVENTS, "Events in the acknowledged requests of the run.");
    describe_gauge!(
        EVENTS_PER_SECOND,
        "Acknowledged events per second: of the last second, then of the window."
    );
    describe_gauge!(
        LATENCY,
        "Time from when a request was due to its response: of the last second, then of the window."
    );
    describe_gauge!(RUNNING, "1 while the run lasts, 0 once it has ended.");
}

fn set_requests(counts: &Counts) {
    for (outcome, requests) in [
        ("acknowledged", counts.acknowledged_requests),
        ("failed", counts.failed_requests),
        ("unsent", counts.unsent_requests),
    ] {
        counter!(REQUESTS, "outcome" => outcome).absolute(requests);
    }
    counter!(EVENTS).absolute(counts.acknowledged_events);
}

fn set_latency(quantile: &'static str, micros: f64) {
    gauge!(LATENCY, "quantile" => quantile).set(micros / 1e6);
}

/// Latencies in microseconds by quantile.
const fn quantiles(latency: &Percentiles) -> [(&'static str, f64); 8] {
    [
        ("0.5", latency.p50_us),
        ("0.75", latency.p75_us),
        ("0.9", latency.p90_us),
        ("0.95", latency.p95_us),
        ("0.99", latency.p99_us),
        ("0.999", latency.p999_us),
        ("0.9999", latency.p9999_us),
        ("1", latency.max_us),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::sum;
    use crate::series::PointLatency;

    #[test]
    fn the_file_follows_the_run_about_once_a_second() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("load.prom");
        let read = || std::fs::read_to_string(&path).unwrap();
        let mut file = PrometheusFile::create(&path).unwrap();
        assert_eq!(sum(&read(), RUNNING, ""), 1.0);
        assert!(read().contains("# HELP millrace_load_requests_total Requests of the run"));
        let progress = Progress {
            elapsed: Duration::from_secs(5),
            warming_up: false,
            acknowledged_requests: 5,
            acknowledged_events: 50,
            failed_requests: 2,
            events_per_second: 10.0,
            latency: Some(PointLatency {
                p50_us: 1000.0,
                p90_us: 1500.0,
                p99_us: 2000.0,
                p999_us: 2500.0,
                max_us: 3000.0,
            }),
        };
        file.progress(&progress).unwrap();
        assert_eq!(sum(&read(), EVENTS, ""), 0.0, "too soon");
        file.written = Instant::now().checked_sub(INTERVAL).unwrap();
        file.progress(&progress).unwrap();
        for (name, label, value) in [
            (REQUESTS, "outcome=\"acknowledged\"", 5.0),
            (REQUESTS, "outcome=\"failed\"", 2.0),
            (EVENTS, "", 50.0),
            (EVENTS_PER_SECOND, "", 10.0),
            (LATENCY, "quantile=\"0.5\"", 0.001),
            (LATENCY, "quantile=\"0.99\"", 0.002),
            (RUNNING, "", 1.0),
        ] {
            assert_eq!(sum(&read(), name, label), value, "{name} {label}");
        }
        let files = std::fs::read_dir(dir.path()).unwrap();
        assert_eq!(files.count(), 1, "only the file itself is left");
        let nowhere = dir.path().join("none/load.prom");
        assert!(PrometheusFile::create(&nowhere).is_err());
    }
}
