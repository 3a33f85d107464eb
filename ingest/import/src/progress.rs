//! Progress, for people as a bar and for machines as lines of JSON.

use crate::meter::{Meter, Reading};
use indicatif::{
    HumanBytes, HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle,
};
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
    let mut told = None;
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
        if reading.waiting_for.is_some() && reading.waiting_for != told {
            told = reading.waiting_for;
            let line = format!("{stage}: {}", told.as_deref().unwrap_or_default());
            if bar.is_hidden() {
                // A closed pipe is the reader's choice.
                let _ = writeln!(std::io::stderr(), "{line}");
            } else {
                bar.println(line);
            }
        }
    });
    bar.finish_and_clear();
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
        "{} · {} events · {} events/s · {} rejected",
        HumanBytes(reading.bytes_read),
        HumanCount(reading.accepted),
        HumanCount(rate),
        HumanCount(reading.rejected),
    );
    if let Some(seconds) = reading.seconds_left.filter(|it| it.is_finite()) {
        let left = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        message += &format!(" · {} left", HumanDuration(left));
    }
    message
}

fn lines(stage: &'static str, meter: &Meter, is_over: &AtomicBool) {
    until_over(is_over, LINE_EVERY, || {
        let line = serde_json::json!({ "stage": stage, "progress": meter.read() });
        // A closed pipe is the reader's choice.
        let _ = writeln!(std::io::stdout(), "{line}");
    });
}
