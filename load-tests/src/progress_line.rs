//! Line that shows a run while it runs.

use indicatif::{ProgressBar, ProgressStyle};
use millrace_load::digits::grouped;
use millrace_load::{Plan, Progress};
use std::cell::Cell;
use std::io::IsTerminal;
use std::time::Duration;

/// Time between two lines where there is no terminal to rewrite one, as in the log of a CI job.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Progress line of a run.
pub struct ProgressLine {
    bar: ProgressBar,
    whole: Duration,
    /// Time of the next line of a log; `None` if the line is rewritten or not shown.
    next: Cell<Option<Duration>>,
}

impl ProgressLine {
    /// Line of a run, shown unless it is to be quiet.
    pub fn new(plan: &Plan, quiet: bool) -> Self {
        let whole = plan.warm_up + plan.duration;
        let (bar, template) = match plan.requests_max {
            _ if quiet => (ProgressBar::hidden(), "{msg}"),
            Some(_) => (ProgressBar::no_length(), "{spinner} {msg}"),
            None => (
                ProgressBar::new(u64::try_from(whole.as_millis()).unwrap_or(u64::MAX)),
                "[{bar:24}] {msg}",
            ),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        let is_log = !quiet && !std::io::stderr().is_terminal();
        Self {
            bar,
            whole,
            next: Cell::new(is_log.then_some(LOG_INTERVAL)),
        }
    }

    /// Shows the progress.
    pub fn show(&self, progress: &Progress) {
        let position = progress.elapsed.min(self.whole).as_millis();
        self.bar
            .set_position(u64::try_from(position).unwrap_or(u64::MAX));
        self.bar.set_message(text(progress));
        if let Some(next) = self.next.get().filter(|next| progress.elapsed >= *next) {
            eprintln!("{}", text(progress));
            self.next.set(Some(next + LOG_INTERVAL));
        }
    }

    /// Removes the line.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// Progress in words: rate and latency of the last second, and all failures.
fn text(progress: &Progress) -> String {
    let latency = |micros: Option<f64>| {
        micros.map_or_else(|| "–".to_owned(), |us| format!("{:.2} ms", us / 1000.0))
    };
    let recent = progress.latency;
    format!(
        "{:>5.1} s{}  {:>11} events/s  p50 {}  p99 {}  {} failed",
        progress.elapsed.as_secs_f64(),
        if progress.warming_up {
            " (warm-up)"
        } else {
            ""
        },
        grouped(progress.events_per_second),
        latency(recent.map(|recent| recent.p50_us)),
        latency(recent.map(|recent| recent.p99_us)),
        progress.failed_requests
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_load::series::PointLatency;

    #[test]
    fn the_line_has_rate_latency_and_failures() {
        let mut progress = Progress {
            elapsed: Duration::from_millis(12_340),
            warming_up: false,
            acknowledged_requests: 7,
            acknowledged_events: 70,
            failed_requests: 2,
            events_per_second: 98_765.4,
            latency: Some(PointLatency {
                p50_us: 1234.0,
                p90_us: 2000.0,
                p99_us: 56_789.0,
                p999_us: 60_000.0,
                max_us: 60_000.0,
            }),
        };
        let expected = " 12.3 s       98 765 events/s  p50 1.23 ms  p99 56.79 ms  2 failed";
        assert_eq!(text(&progress), expected);
        progress.warming_up = true;
        progress.events_per_second = 0.0;
        progress.latency = None;
        let expected = " 12.3 s (warm-up)            0 events/s  p50 –  p99 –  2 failed";
        assert_eq!(text(&progress), expected);
    }
}
