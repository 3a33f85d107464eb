//! CPU and memory of the generator and the server over time.
//!
//! The processes are read once a second. After [`READINGS_MAX`] readings, every other one is
//! dropped and the interval is doubled.

use crate::process::Usage;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Highest number of readings.
pub const READINGS_MAX: usize = 1024;

/// Usage of both processes at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Time since the first due request.
    pub at: Duration,
    /// Usage of this process.
    pub generator: Usage,
    /// Usage of the server, while it runs.
    pub server: Option<Usage>,
}

/// Readings of a run.
#[derive(Clone, Debug)]
pub struct Readings {
    interval: Duration,
    taken: Vec<Reading>,
}

/// Usage of the processes between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourcePoint {
    /// Time of the second reading, in seconds since the window began; negative in the warm-up.
    pub at_seconds: f64,
    /// Usage of the generator.
    pub generator: Used,
    /// Usage of the server, if it ran at both readings.
    pub server: Option<Used>,
}

/// CPU and memory of one process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// CPU seconds per second since the previous reading.
    pub cores: f64,
    /// Resident memory in bytes.
    pub rss_bytes: u64,
}

impl Default for Readings {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            taken: Vec::new(),
        }
    }
}

impl Readings {
    /// Keeps a reading if one is due.
    pub fn offer(&mut self, reading: Reading) {
        let due = self
            .taken
            .last()
            .is_none_or(|last| reading.at >= last.at + self.interval);
        if !due {
            return;
        }
        if self.taken.len() == READINGS_MAX {
            let mut number = 0;
            self.taken.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.interval *= 2;
        }
        self.taken.push(reading);
    }

    /// Usage from reading to reading.
    #[must_use]
    pub fn points(&self, warm_up: Duration) -> Vec<ResourcePoint> {
        let used = |before: &Usage, after: &Usage, seconds: f64| Used {
            cores: (after.cpu_seconds - before.cpu_seconds) / seconds,
            rss_bytes: after.rss_bytes,
        };
        let point = |pair: &[Reading]| {
            let [before, after] = pair else { return None };
            let seconds = (after.at - before.at).as_secs_f64();
            let servers = before.server.zip(after.server);
            Some(ResourcePoint {
                at_seconds: after.at.as_secs_f64() - warm_up.as_secs_f64(),
                generator: used(&before.generator, &after.generator, seconds),
                server: servers.map(|(before, after)| used(&before, &after, seconds)),
            })
        };
        self.taken.windows(2).filter_map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(millis: u64, server: bool) -> Reading {
        let usage = Usage {
            cpu_seconds: millis as f64 / 2000.0,
            rss_bytes: millis,
        };
        Reading {
            at: Duration::from_millis(millis),
            generator: usage,
            server: server.then_some(usage),
        }
    }

    #[test]
    fn a_point_has_the_usage_since_the_previous_reading() {
        let mut readings = Readings::default();
        for (millis, server) in [
            (0, true),
            (50, true),
            (1000, true),
            (2500, false),
            (3500, true),
        ] {
            readings.offer(reading(millis, server));
        }
        let points = readings.points(Duration::from_secs(1));
        let shown: Vec<_> = points
            .iter()
            .map(|p| {
                (
                    p.at_seconds,
                    p.generator.cores,
                    p.server.map(|s| s.rss_bytes),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [(0.0, 0.5, Some(1000)), (1.5, 0.5, None), (2.5, 0.5, None)]
        );
    }

    #[test]
    fn a_long_run_doubles_the_interval_of_its_readings() {
        let mut readings = Readings::default();
        for second in 0..10_000 {
            readings.offer(reading(second * 1000, true));
        }
        let points = readings.points(Duration::ZERO);
        assert!(points.len() < READINGS_MAX);
        assert!(points.iter().all(|point| point.generator.cores == 0.5));
        assert!(points[points.len() - 1].at_seconds > 9980.0);
    }
}
