//! Backoff of failed batches: pauses between tries, and how often a failure is logged.

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use std::time::Duration;
use tokio::time::Instant;

/// First and longest pause between two tries.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Longest pause while nobody answers: a try costs next to nothing then, and after an outage all
/// rows that came meanwhile wait for the next one.
const PAUSE_UNREACHABLE_MAX: Duration = Duration::from_secs(1);

/// Backoff of work that is tried until it succeeds.
#[derive(Debug)]
pub struct RetryBackoff {
    pauses: ExponentialBackoff,
    unreachable_pauses: ExponentialBackoff,
    /// Time before which no further failure is logged, however many there are.
    log_not_before: Instant,
}

/// Reaction to a failure.
#[derive(Clone, Copy, Debug)]
pub struct RetryDecision {
    /// Pause until the next try.
    pub pause: Duration,
    /// True if it is time to log the failure.
    pub is_logged: bool,
}

impl RetryBackoff {
    /// A backoff without failures yet.
    pub fn new() -> Self {
        Self {
            pauses: pauses(),
            unreachable_pauses: between(PAUSE_MIN, PAUSE_UNREACHABLE_MAX),
            log_not_before: Instant::now(),
        }
    }

    /// A backoff with the longest pauses from the first failure on.
    pub fn patient() -> Self {
        Self {
            pauses: between(PAUSE_MAX, PAUSE_MAX),
            ..Self::new()
        }
    }

    /// Records a failure; `is_unreachable` when nobody answered. Pauses double, with jitter.
    pub fn failed(&mut self, is_unreachable: bool) -> RetryDecision {
        let long = self.pauses.next().unwrap_or(PAUSE_MAX);
        let short = self
            .unreachable_pauses
            .next()
            .unwrap_or(PAUSE_UNREACHABLE_MAX);
        let now = Instant::now();
        let is_logged = now >= self.log_not_before;
        if is_logged {
            self.log_not_before = now + long;
        }
        RetryDecision {
            pause: if is_unreachable {
                short.min(long)
            } else {
                long
            },
            is_logged,
        }
    }
}

/// Returns endless pauses between tries: doubling, with jitter.
pub fn pauses() -> ExponentialBackoff {
    between(PAUSE_MIN, PAUSE_MAX)
}

fn between(first: Duration, longest: Duration) -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(first)
        .with_max_delay(longest)
        .with_jitter()
        .without_max_times()
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_unreachable_server_is_tried_every_two_seconds_and_logged_seldom() {
        for (is_unreachable, tries, pause) in [(true, 1_200..3_900, 2), (false, 120..400, 20)] {
            let (started, mut backoff) = (Instant::now(), RetryBackoff::new());
            let (mut tried, mut logged) = (0, 0);
            while started.elapsed() < Duration::from_secs(3_600) {
                let failed = backoff.failed(is_unreachable);
                assert!(failed.pause <= Duration::from_secs(pause));
                assert!(failed.is_logged || tried > 0, "the first failure is logged");
                tried += 1;
                logged += u32::from(failed.is_logged);
                tokio::time::sleep(failed.pause).await;
            }
            assert!(tries.contains(&tried), "{tried}");
            assert!((120..400).contains(&logged), "{logged}");
        }
    }
}
