//! Progress reports: a bar for people, lines of JSON for programs.

use crate::count::counted;
use crate::stats::{StageStats, StatsSnapshot};
use indicatif::{
    HumanBytes, HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle,
};
use millrace_rows::{shown, shown_json};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which the bar is redrawn.
const BAR_EVERY: Duration = Duration::from_millis(200);
/// Interval at which a line is written.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Reader of the progress reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// A person: a bar, or if standard error is no terminal, a line for each pause.
    Person,
    /// A program: one JSON object a line on standard output.
    Machine,
}

/// Shows progress until it is dropped.
#[derive(Debug)]
pub struct ProgressReporter {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ProgressReporter {
    /// Starts reporting the counters of a stage, such as `load`.
    #[must_use]
    pub fn start(stage: &'static str, stats: &Arc<StageStats>, audience: Audience) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, stats) = (Arc::clone(&is_over), Arc::clone(stats));
        let thread = std::thread::spawn(move || match audience {
            Audience::Person => bar(stage, &stats, &over),
            Audience::Machine => lines(stage, &stats, &over),
        });
        Self {
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for ProgressReporter {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread returns nothing.
            let _ = thread.join();
        }
    }
}

/// Calls `show` at an interval until the stage is over, and once more at its end.
fn until_over(is_over: &AtomicBool, every: Duration, mut show: impl FnMut()) {
    loop {
        let next = Instant::now() + every;
        while !is_over.load(Ordering::Relaxed) && Instant::now() < next {
            std::thread::park_timeout(next.saturating_duration_since(Instant::now()));
        }
        show();
        if is_over.load(Ordering::Relaxed) {
            return;
        }
    }
}

fn bar(stage: &'static str, stats: &StageStats, is_over: &AtomicBool) {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_prefix(stage);
    bar.set_style(style("{prefix} {spinner} {msg}"));
    let mut shown: Option<Waiting> = None;
    until_over(is_over, BAR_EVERY, || {
        let snapshot = stats.snapshot();
        if snapshot.bytes_total > 0 {
            if bar.length().is_none() {
                bar.set_style(style("{prefix} [{bar:24}] {percent:>3}% {msg}"));
            }
            bar.set_length(snapshot.bytes_total.max(snapshot.bytes_read));
        }
        bar.set_position(snapshot.bytes_read);
        bar.set_message(match stage {
            "fetch" => fetched(&snapshot),
            _ => message(&snapshot),
        });
        bar.tick();
        let Some(wait) = Waiting::of(&snapshot) else {
            return;
        };
        let line = format!("{stage}: {}", wait.line());
        if bar.is_hidden() && shown.as_ref() != Some(&wait) {
            // A closed pipe is the reader's choice.
            let _ = writeln!(std::io::stderr(), "{line}");
        } else if shown
            .as_ref()
            .is_none_or(|shown| shown.cause() != wait.cause())
        {
            // The bar itself shows the end of the pause.
            bar.println(line);
        }
        shown = Some(wait);
    });
    bar.finish_and_clear();
}

/// Reason and end of a pause.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Waiting {
    reason: String,
    until: String,
}

impl Waiting {
    fn of(snapshot: &StatsSnapshot) -> Option<Self> {
        Some(Self {
            // The reason is the server's text.
            reason: shown(snapshot.waiting_for.as_deref()?).into_owned(),
            until: snapshot.waiting_until.clone()?,
        })
    }

    /// Reason without advice and duration.
    fn cause(&self) -> &str {
        let cause = self.reason.split(';').next().unwrap_or_default();
        cause.trim_end_matches('.')
    }

    /// Time of day of the end.
    fn time(&self) -> &str {
        let time = self.until.split_once('T').map_or("", |(_, time)| time);
        time.get(..8).unwrap_or(&self.until)
    }

    fn line(&self) -> String {
        format!("waiting until {} UTC: {}", self.time(), self.reason)
    }
}

/// Style of a bar; the template is a valid constant.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn fetched(snapshot: &StatsSnapshot) -> String {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "for people"
    )]
    let rate = (snapshot.bytes_read as f64 / snapshot.seconds.max(0.001)) as u64;
    format!(
        "{}/{} parts · {} · {}/s",
        snapshot.parts_done,
        snapshot.parts_total,
        HumanBytes(snapshot.bytes_read),
        HumanBytes(rate),
    )
}

fn message(snapshot: &StatsSnapshot) -> String {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "for people"
    )]
    let rate = snapshot.events_per_second as u64;
    let mut message = format!(
        "{} · {} · {} rejected",
        HumanBytes(snapshot.bytes_read),
        counted(snapshot.accepted, "event"),
        HumanCount(snapshot.rejected),
    );
    if let Some(wait) = Waiting::of(snapshot).filter(|_| snapshot.is_waiting) {
        return format!(
            "{message} · waiting until {} UTC ({})",
            wait.time(),
            wait.cause()
        );
    }
    message += &format!(" · {}/s", HumanCount(rate));
    if let Some(seconds) = snapshot.seconds_left.filter(|it| it.is_finite()) {
        let left = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        message += &format!(" · {} left", HumanDuration(left));
    }
    message
}

fn lines(stage: &'static str, stats: &StageStats, is_over: &AtomicBool) {
    until_over(is_over, LINE_EVERY, || {
        let line = serde_json::json!({ "stage": stage, "progress": stats.snapshot() }).to_string();
        // A closed pipe is the reader's choice.
        let _ = writeln!(std::io::stdout(), "{}", shown_json(&line));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_load_shows_its_reason_and_until_when() {
        let snapshot = StatsSnapshot {
            bytes_total: 100,
            bytes_read: 100,
            accepted: 1,
            events_per_second: 1_279.0,
            seconds_left: Some(0.0),
            waiting_for: Some(
                "The project may import 10000 events a minute; nothing of the request was stored."
                    .to_owned(),
            ),
            waiting_until: Some("2026-11-23T01:05:30Z".to_owned()),
            is_waiting: true,
            ..StatsSnapshot::default()
        };
        let expected = "100 B · 1 event · 0 rejected · waiting until 01:05:30 UTC \
                     (The project may import 10000 events a minute)";
        assert_eq!(message(&snapshot), expected);
        let line = Waiting::of(&snapshot).unwrap().line();
        assert!(
            line.starts_with("waiting until 01:05:30 UTC: The project"),
            "{line}"
        );
        let snapshot = StatsSnapshot {
            is_waiting: false,
            ..snapshot
        };
        assert_eq!(
            message(&snapshot),
            "100 B · 1 event · 0 rejected · 1,279/s · 0 seconds left"
        );
    }
}
