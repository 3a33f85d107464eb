//! Watcher of a run: reads the processes at both ends of the window and once a second, and makes
//! the summary.

use super::shared::{Shared, TICK, sum};
use crate::hdr::HdrLog;
use crate::plan::Plan;
use crate::process::Usage;
use crate::resources::{Reading, Readings};
use crate::schedule::{Schedule, Times};
use crate::series::RunTiming;
use crate::summary::{Counts, Load, Percentiles, Quantile, Summary};
use crate::wall_clock::{now_text, since_epoch};
use crate::worker_stats::{Totals, WorkerStats, over_time};
use anyhow::Result;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Readings of the processes at both ends of the window, and in between.
pub(super) struct Watch {
    server_pid: Option<u32>,
    times: Times,
    /// Time since 1970 when the first request was due.
    started: Duration,
    started_at: String,
    begin: Option<Sample>,
    end: Option<Sample>,
    rss_bytes_max: (u64, u64),
    readings: Readings,
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
    pub(super) fn new(plan: &Plan, times: Times) -> Self {
        Self {
            server_pid: plan.server_pid,
            times,
            started: since_epoch(),
            started_at: now_text(),
            begin: None,
            end: None,
            rss_bytes_max: (0, 0),
            readings: Readings::default(),
        }
    }

    pub(super) fn is_over(&self, threads: &[JoinHandle<Result<()>>]) -> bool {
        threads.iter().all(JoinHandle::is_finished)
    }

    /// Time until the next action: at most a tick, less at the ends of the window.
    pub(super) fn pause(&self) -> Duration {
        let due = match (self.begin, self.end) {
            (None, _) => self.times.window_start,
            (_, None) => self.times.window_end,
            _ => return TICK,
        };
        due.saturating_duration_since(Instant::now()).min(TICK)
    }

    pub(super) fn tick(&mut self) -> Result<()> {
        let sample = Sample::take(self.server_pid)?;
        self.rss_bytes_max.0 = self.rss_bytes_max.0.max(sample.generator.rss_bytes);
        let server_rss = sample.server.map_or(0, |usage| usage.rss_bytes);
        self.rss_bytes_max.1 = self.rss_bytes_max.1.max(server_rss);
        self.readings.offer(Reading {
            at: sample.at.saturating_duration_since(self.times.start),
            generator: sample.generator,
            server: sample.server,
        });
        if self.begin.is_none() && sample.at >= self.times.window_start {
            self.begin = Some(sample);
        }
        if self.end.is_none() && sample.at >= self.times.window_end {
            self.end = Some(sample);
        }
        Ok(())
    }

    /// Takes the last readings. The window of a run that ended early ends where the run ended.
    pub(super) fn close(&mut self) -> Result<()> {
        self.tick()?;
        if self.end.is_none() {
            self.end = Some(Sample::take(self.server_pid)?);
        }
        Ok(())
    }

    pub(super) fn summary(
        &self,
        shared: &Shared,
        all_stats: &[Arc<WorkerStats>],
    ) -> Result<Summary> {
        let plan = &shared.plan;
        let mut totals = Totals::of(all_stats);
        let (due, window_due) = self.due(&shared.schedule);
        let run = run_counts(all_stats, due);
        let window = window_counts(all_stats, window_due);
        let waited = self.longest_wait(&shared.schedule, due - window.unsent_requests.min(due));
        totals.unsent(window.unsent_requests, waited);
        let window_seconds = self.window_seconds();
        let per_second = |count: u64| {
            if window_seconds > 0.0 {
                count as f64 / window_seconds
            } else {
                0.0
            }
        };
        let (generator, server) = self.loads(window_seconds, window.acknowledged_events);
        let timing = RunTiming {
            warm_up: plan.warm_up,
            elapsed: self.times.start.elapsed(),
        };
        let over_time = over_time(all_stats);
        let hdr_log = HdrLog::of_run(
            self.started,
            (timing, window_seconds),
            &over_time,
            [&totals.latency, &totals.send_lag, &totals.refusal],
        )?;
        Ok(Summary {
            run_id: format!("{:08x}", shared.run_id),
            started_at: self.started_at.clone(),
            command: String::new(),
            plan: plan.clone(),
            run,
            window,
            window_seconds,
            events_per_second: per_second(window.acknowledged_events),
            requests_per_second: per_second(window.acknowledged_requests),
            wire_bytes_per_second: per_second(sum(all_stats, |t| &t.window_wire_bytes)),
            latency: Percentiles::of(&totals.latency),
            latency_distribution: Quantile::all(&totals.latency),
            send_lag: Percentiles::of(&totals.send_lag),
            refusal: Percentiles::of(&totals.refusal),
            failures: totals.failures,
            first_failure: totals.first_failure,
            generator,
            server,
            series: over_time.series(timing),
            resources: self.readings.points(plan.warm_up),
            hdr_log: hdr_log.to_string(),
        })
    }

    /// Requests due until the end: of the run, and of the window.
    fn due(&self, schedule: &Schedule) -> (u64, u64) {
        let due = schedule.end().map_or(0, |end| schedule.due_before(end));
        let warm_up = schedule.due_before(self.times.window_start);
        (due, due.saturating_sub(warm_up))
    }

    /// Time that the first unsent request had waited at the end.
    fn longest_wait(&self, schedule: &Schedule, first: u64) -> Duration {
        let (Some(due), Some(end)) = (schedule.due(first), schedule.end()) else {
            return Duration::ZERO;
        };
        end.saturating_duration_since(due)
    }

    /// Length of the window in seconds. A run that ended early has a shorter one. The window of an
    /// open loop ends with its schedule: its rate counts requests that were due in it.
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

/// Counts of the whole run, in which `due` requests were due.
fn run_counts(all_stats: &[Arc<WorkerStats>], due: u64) -> Counts {
    Counts {
        acknowledged_requests: sum(all_stats, |t| &t.acknowledged),
        acknowledged_events: sum(all_stats, |t| &t.acknowledged_events),
        failed_requests: sum(all_stats, |t| &t.failed),
        unsent_requests: 0,
    }
    .with_due(due)
}

/// Counts of the window, in which `due` requests were due.
fn window_counts(all_stats: &[Arc<WorkerStats>], due: u64) -> Counts {
    Counts {
        acknowledged_requests: sum(all_stats, |t| &t.window_acknowledged),
        acknowledged_events: sum(all_stats, |t| &t.window_acknowledged_events),
        failed_requests: sum(all_stats, |t| &t.window_failed),
        unsent_requests: 0,
    }
    .with_due(due)
}
