//! Progress, for people as a bar and for machines as lines of JSON.

use crate::count::counted;
use crate::meter::{Meter, Reading};
use indicatif::{
    HumanBytes, HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle,
};
use millrace_rows::{shown, shown_json};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a bar is drawn anew.
const BAR_EVERY: Duration = Duration::from_millis(200);
/// How often a line is written.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Who watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// A person: a bar, or where standard error is no terminal, a line whenever something is waited for.
    Person,
    /// A program: a JSON object a line on standard output.
    Machine,
}

/// Shows progress until it is dropped.
#[derive(Debug)]
pub struct Watch {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to show what a meter says of a stage, such as `load`.
    #[must_use]
    pub fn start(stage: &'static str, meter: &Arc<Meter>, audience: Audience) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, meter) = (Arc::clone(&is_over), Arc::clone(meter));
        let thread = std::thread::spawn(move || match audience {
            Audience::Person => bar(stage, &meter, &over),
            Audience::Machine => lines(stage, &meter, &over),
        });
        Self {
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

/// Calls until it is over, and once more then.
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

fn bar(stage: &'static str, meter: &Meter, is_over: &AtomicBool) {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_prefix(stage);
    bar.set_style(style("{prefix} {spinner} {msg}"));
    let mut told: Option<Waiting> = None;
    until_over(is_over, BAR_EVERY, || {
        let reading = meter.read();
        if reading.bytes_total > 0 {
            if bar.length().is_none() {
                bar.set_style(style("{prefix} [{bar:24}] {percent:>3}% {msg}"));
            }
            bar.set_length(reading.bytes_total.max(reading.bytes_read));
        }
        bar.set_position(reading.bytes_read);
        bar.set_message(match stage {
            "fetch" => fetched(&reading),
            _ => message(&reading),
        });
        bar.tick();
        let Some(wait) = Waiting::of(&reading) else {
            return;
        };
        let line = format!("{stage}: {}", wait.line());
        if bar.is_hidden() && told.as_ref() != Some(&wait) {
            // A closed pipe is the reader's choice.
            let _ = writeln!(std::io::stderr(), "{line}");
        } else if told
            .as_ref()
            .is_none_or(|told| told.cause() != wait.cause())
        {
            // The bar itself says until when.
            bar.println(line);
        }
        told = Some(wait);
    });
    bar.finish_and_clear();
}

/// Why nothing is sent, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Waiting {
    reason: String,
    until: String,
}

impl Waiting {
    fn of(reading: &Reading) -> Option<Self> {
        Some(Self {
            // In the server's words.
            reason: shown(reading.waiting_for.as_deref()?).into_owned(),
            until: reading.waiting_until.clone()?,
        })
    }

    /// Without what to do, and how long.
    fn cause(&self) -> &str {
        let cause = self.reason.split(';').next().unwrap_or_default();
        cause.trim_end_matches('.')
    }

    /// The time of day.
    fn time(&self) -> &str {
        let time = self.until.split_once('T').map_or("", |(_, time)| time);
        time.get(..8).unwrap_or(&self.until)
    }

    fn line(&self) -> String {
        format!("waiting until {} UTC: {}", self.time(), self.reason)
    }
}

/// The template is ours, and as it should be.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn fetched(reading: &Reading) -> String {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "for people"
    )]
    let rate = (reading.bytes_read as f64 / reading.seconds.max(0.001)) as u64;
    format!(
        "{}/{} parts · {} · {}/s",
        reading.parts_done,
        reading.parts_total,
        HumanBytes(reading.bytes_read),
        HumanBytes(rate),
    )
}

fn message(reading: &Reading) -> String {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "for people"
    )]
    let rate = reading.events_per_second as u64;
    let mut message = format!(
        "{} · {} · {} rejected",
        HumanBytes(reading.bytes_read),
        counted(reading.accepted, "event"),
        HumanCount(reading.rejected),
    );
    if let Some(wait) = Waiting::of(reading).filter(|_| reading.is_waiting) {
        return format!(
            "{message} · waiting until {} UTC ({})",
            wait.time(),
            wait.cause()
        );
    }
    message += &format!(" · {}/s", HumanCount(rate));
    if let Some(seconds) = reading.seconds_left.filter(|it| it.is_finite()) {
        let left = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        message += &format!(" · {} left", HumanDuration(left));
    }
    message
}

fn lines(stage: &'static str, meter: &Meter, is_over: &AtomicBool) {
    until_over(is_over, LINE_EVERY, || {
        let line = serde_json::json!({ "stage": stage, "progress": meter.read() }).to_string();
        // A closed pipe is the reader's choice.
        let _ = writeln!(std::io::stdout(), "{}", shown_json(&line));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_waits_says_until_when_and_why() {
        let reading = Reading {
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
            ..Reading::default()
        };
        let waits = "100 B · 1 event · 0 rejected · waiting until 01:05:30 UTC \
                     (The project may import 10000 events a minute)";
        assert_eq!(message(&reading), waits);
        let line = Waiting::of(&reading).unwrap().line();
        assert!(
            line.starts_with("waiting until 01:05:30 UTC: The project"),
            "{line}"
        );
        let reading = Reading {
            is_waiting: false,
            ..reading
        };
        assert_eq!(
            message(&reading),
            "100 B · 1 event · 0 rejected · 1,279/s · 0 seconds left"
        );
    }
}
