//! How soon what failed is tried again, and how often that is said.

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use std::time::Duration;
use tokio::time::Instant;

/// First and longest pause between two tries.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// The longest pause while nobody answers: to knock costs next to nothing, and after an outage
/// everything that came meanwhile waits for the next try.
const PAUSE_AWAY_MAX: Duration = Duration::from_secs(1);

/// The pauses of something that is tried until it works.
#[derive(Debug)]
pub struct Pace {
    pauses: ExponentialBackoff,
    away: ExponentialBackoff,
    /// Nothing is said before, however often it is tried.
    say_not_before: Instant,
}

/// What follows a failure.
#[derive(Clone, Copy, Debug)]
pub struct Failed {
    /// Until the next try.
    pub pause: Duration,
    /// Whether it is time to say that it failed.
    pub is_said: bool,
}

impl Pace {
    /// Nothing has failed yet.
    pub fn new() -> Self {
        Self {
            pauses: pauses(),
            away: between(PAUSE_MIN, PAUSE_AWAY_MAX),
            say_not_before: Instant::now(),
        }
    }

    /// It has failed so often that the longest pauses are due.
    pub fn patient() -> Self {
        Self {
            pauses: between(PAUSE_MAX, PAUSE_MAX),
            ..Self::new()
        }
    }

    /// It failed; `is_away` when nobody answered. Pauses double, spread at random.
    pub fn failed(&mut self, is_away: bool) -> Failed {
        let long = self.pauses.next().unwrap_or(PAUSE_MAX);
        let short = self.away.next().unwrap_or(PAUSE_AWAY_MAX);
        let now = Instant::now();
        let is_said = now >= self.say_not_before;
        if is_said {
            self.say_not_before = now + long;
        }
        Failed {
            pause: if is_away { short.min(long) } else { long },
            is_said,
        }
    }
}

/// Pauses between tries of what does not go away: doubling, spread at random, without an end.
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
    async fn whoever_is_away_is_asked_every_two_seconds_and_it_is_said_seldom() {
        for (is_away, tries, pause) in [(true, 1_200..3_900, 2), (false, 120..400, 20)] {
            let (started, mut pace) = (Instant::now(), Pace::new());
            let (mut tried, mut said) = (0, 0);
            while started.elapsed() < Duration::from_secs(3_600) {
                let failed = pace.failed(is_away);
                assert!(failed.pause <= Duration::from_secs(pause));
                assert!(failed.is_said || tried > 0, "the first failure is said");
                tried += 1;
                said += u32::from(failed.is_said);
                tokio::time::sleep(failed.pause).await;
            }
            assert!(tries.contains(&tried), "{tried}");
            assert!((120..400).contains(&said), "{said}");
        }
    }
}
