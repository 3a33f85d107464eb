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
    /// A person; where standard error is no terminal, nobody.
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
    let mut waiting_for = None;
    until_over(is_over, BAR_EVERY, || {
        let reading = meter.read();
        waiting_for = reading.waiting_for.clone().or(waiting_for.take());
        if reading.bytes_total > 0 && bar.length().is_none() {
            bar.set_style(style("{prefix} [{bar:24}] {percent:>3}% {msg}"));
        }
        if reading.bytes_total > 0 {
            bar.set_length(reading.bytes_total.max(reading.bytes_read));
        }
        bar.set_position(reading.bytes_read);
        bar.set_message(message(&reading, waiting_for.as_deref()));
        if reading.waiting_for.is_none() {
            waiting_for = None;
        }
    });
    bar.finish_and_clear();
}

/// The template is ours, and as it should be.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn message(reading: &Reading, waiting_for: Option<&str>) -> String {
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
    if let Some(reason) = waiting_for {
        let reason: String = reason.chars().take(60).collect();
        message += &format!(" · waiting: {reason}");
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
