//! Wait for everything that was sent to be in ClickHouse, at the end of a run.
//!
//! Events of many months leave a backlog that takes minutes: rows of the good tenant may lie behind
//! it in the log, and are not lost. The watermark tells when all of it is shipped, at the cost of a
//! page of metrics; a count of rows would take an engine that is busy with shipping.

use super::findings::Findings;
use super::subject::Subject;
use super::watch::WATERMARK_AGE;
use crate::metrics;
use anyhow::Result;
use std::time::{Duration, Instant};

/// Longest time for which the watermark may stand still.
const STILL_MAX: Duration = Duration::from_secs(180);
/// Longest wait in all.
const WAIT_MAX: Duration = Duration::from_secs(1_800);
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Interval at which progress is told.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Waits until all that was sent so far is in ClickHouse; a watermark that stands still before is a
/// violation.
pub(super) fn wait(subject: &Subject, findings: &Findings, say: &dyn Fn(&str)) -> Result<()> {
    let mut backlog = Backlog::new(Instant::now());
    let mut told_at = Instant::now();
    while !subject.has_ended()? {
        // A server too busy for its metrics tells nothing.
        let text = metrics::read(&subject.credentials.health_url);
        let age = text.map(|text| metrics::sum(&text, WATERMARK_AGE, ""));
        match backlog.look(age.ok(), Instant::now()) {
            Shipping::Done => return Ok(()),
            Shipping::StandsStill => {
                findings.wrong(format!("not all is shipped: {}", backlog.told()));
                return Ok(());
            }
            Shipping::GoesOn => {}
        }
        if told_at.elapsed() >= TELL_EVERY {
            told_at = Instant::now();
            say(&format!("shipping: {}", backlog.told()));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

/// State of shipping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shipping {
    GoesOn,
    Done,
    StandsStill,
}

/// What is to be shipped: everything from before a time.
#[derive(Debug)]
struct Backlog {
    sent_until: Instant,
    /// Least time by which the watermark was behind `sent_until`.
    behind: Duration,
    moved_at: Instant,
}

impl Backlog {
    fn new(sent_until: Instant) -> Self {
        Self {
            sent_until,
            behind: Duration::MAX,
            moved_at: sent_until,
        }
    }

    /// Compares the age of the watermark, in seconds; `None` if it is not known.
    fn look(&mut self, age: Option<f64>, now: Instant) -> Shipping {
        let since = now.duration_since(self.sent_until);
        let age = age.and_then(|age| Duration::try_from_secs_f64(age).ok());
        if let Some(behind) = age.map(|age| age.saturating_sub(since))
            && behind < self.behind
        {
            (self.behind, self.moved_at) = (behind, now);
        }
        if self.behind.is_zero() {
            Shipping::Done
        } else if now.duration_since(self.moved_at) >= STILL_MAX || since >= WAIT_MAX {
            Shipping::StandsStill
        } else {
            Shipping::GoesOn
        }
    }

    /// Progress in words.
    fn told(&self) -> String {
        match self.behind {
            Duration::MAX => "the watermark is not known".to_owned(),
            behind => format!("the watermark is {} s behind", behind.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// State after looks at these seconds, each with the age of the watermark.
    fn last(looks: &[(u64, Option<f64>)]) -> Shipping {
        let began = Instant::now();
        let mut backlog = Backlog::new(began);
        let mut last = Shipping::GoesOn;
        for (seconds, age) in looks {
            last = backlog.look(*age, began + Duration::from_secs(*seconds));
        }
        last
    }

    #[test]
    fn all_is_shipped_once_the_watermark_has_passed_the_end() {
        for (looks, expected) in [
            (&[(1, Some(40.0)), (2, Some(39.0))][..], Shipping::GoesOn),
            (&[(1, Some(40.0)), (9, Some(8.0))][..], Shipping::Done),
            (&[(1, None), (200, None)][..], Shipping::StandsStill),
            (
                &[(1, Some(40.0)), (100, Some(139.0)), (170, None)][..],
                Shipping::GoesOn,
            ),
            (
                &[(1, Some(40.0)), (100, Some(139.5)), (200, Some(239.0))][..],
                Shipping::StandsStill,
            ),
            (
                &[(1, Some(40.0)), (170, Some(200.0)), (340, Some(365.0))][..],
                Shipping::GoesOn,
            ),
            (
                &[(1, Some(9e3)), (1_799, Some(9e3)), (1_800, Some(9e3))][..],
                Shipping::StandsStill,
            ),
            (&[(1, Some(f64::NAN))][..], Shipping::GoesOn),
        ] {
            assert_eq!(last(looks), expected, "{looks:?}");
        }
    }
}
