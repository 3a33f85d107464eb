//! Line that shows a run while it runs.

use indicatif::{ProgressBar, ProgressStyle};
use millrace_load::digits::grouped;
use millrace_load::{Plan, Progress};
use std::time::Duration;

/// Progress line of a run.
pub struct ProgressLine {
    bar: ProgressBar,
    whole: Duration,
    last: std::cell::Cell<(Duration, u64, f64)>,
}

/// Interval over which the displayed rate is averaged.
const RATE_OVER: Duration = Duration::from_secs(1);

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
        Self {
            bar,
            whole,
            last: std::cell::Cell::default(),
        }
    }

    /// Shows the progress.
    pub fn show(&self, progress: &Progress) {
        let (at, events, mut rate) = self.last.get();
        let passed = progress.elapsed.saturating_sub(at);
        if passed >= RATE_OVER {
            rate = (progress.acknowledged_events - events) as f64 / passed.as_secs_f64();
            self.last
                .set((progress.elapsed, progress.acknowledged_events, rate));
        }
        let position = progress.elapsed.min(self.whole).as_millis();
        self.bar
            .set_position(u64::try_from(position).unwrap_or(u64::MAX));
        self.bar.set_message(format!(
            "{:>5.1} s{}  {:>11} events/s  p50 {:.2} ms  p99 {:.2} ms  {} failed",
            progress.elapsed.as_secs_f64(),
            if progress.warming_up {
                " (warm-up)"
            } else {
                ""
            },
            grouped(rate),
            progress.p50_us / 1000.0,
            progress.p99_us / 1000.0,
            progress.failed_requests
        ));
    }

    /// Removes the line.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
