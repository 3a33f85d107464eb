//! Retries of a fetch: a limited number, with growing pauses, or those that the source asks for.
//!
//! A source that asks for a longer pause than a fetch waits is not asked again before that: the
//! fetch ends at once, and says when it may be started again.

use crate::stats::{StageStats, time_after};
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use indicatif::HumanDuration;
use millrace_sources::FetchError;
use std::time::Duration;

const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(120);
/// Most time of the pauses that a source asks for, together: limits of export APIs are of an hour
/// or of a day.
const PAUSES_ASKED_MAX: Duration = Duration::from_secs(12 * 3_600);
/// Longest pause that is named; more is as good as never.
const PAUSE_NAMED_MAX: Duration = Duration::from_secs(366 * 86_400);

/// Attempts that are left for one operation.
#[derive(Debug)]
pub(super) struct Retries {
    pauses: ExponentialBackoff,
    tries_max: usize,
    tried: usize,
    /// Time that the source may still ask for.
    asked_left: Duration,
}

impl Retries {
    /// Allows `tries_max` attempts in a row, with growing pauses between them.
    pub(super) fn new(tries_max: usize) -> Self {
        let pauses = ExponentialBuilder::default()
            .with_min_delay(PAUSE_FIRST)
            .with_max_delay(PAUSE_MAX)
            .with_max_times(tries_max.saturating_sub(1))
            .with_jitter()
            .build();
        Self {
            pauses,
            tries_max,
            tried: 0,
            asked_left: PAUSES_ASKED_MAX,
        }
    }

    /// Waits after a failure, for as long as the source asks, or the next pause, and shows the wait
    /// in the progress.
    ///
    /// # Errors
    /// The given error, if it is final, no attempt is left, or the source asks for a longer pause
    /// than is left.
    pub(super) async fn wait_after(
        &mut self,
        error: FetchError,
        what: &str,
        stats: &StageStats,
    ) -> Result<(), FetchError> {
        let FetchError::Retryable { after, message } = error else {
            return Err(error);
        };
        self.tried += 1;
        let Some(pause) = self.pauses.next() else {
            return Err(FetchError::Retryable { after, message });
        };
        let pause = match after {
            Some(asked) => {
                let Some(left) = self.asked_left.checked_sub(asked) else {
                    return Err(asks_too_long(asked, &message));
                };
                self.asked_left = left;
                asked
            }
            // Jitter comes on top of the longest pause.
            None => pause.min(PAUSE_MAX),
        };
        let reason = format!(
            "{what}: {}; try {} of {} in {}",
            message.trim_end_matches('.'),
            self.tried + 1,
            self.tries_max,
            HumanDuration(pause)
        );
        stats.note_pause(&reason, pause);
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

/// Adds to an error when the source may be asked again.
fn asks_too_long(asked: Duration, message: &str) -> FetchError {
    let named = asked.min(PAUSE_NAMED_MAX);
    FetchError::Retryable {
        after: Some(asked),
        message: format!(
            "{}; the source may be asked again in {}, from {} on",
            message.trim_end_matches('.'),
            HumanDuration(named),
            time_after(named)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    /// Pauses in seconds, and the error at their end, of a source that fails each time.
    async fn pauses(after: Option<Duration>) -> (Vec<u64>, String) {
        let (mut retries, mut pauses) = (Retries::new(12), Vec::new());
        let stats = StageStats::default();
        loop {
            let message = "The service is busy.".to_owned();
            let error = FetchError::Retryable { after, message };
            let begun_at = Instant::now();
            match retries.wait_after(error, "a part", &stats).await {
                Ok(()) => pauses.push(begun_at.elapsed().as_secs()),
                Err(error) => return (pauses, error.to_string()),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_is_waited_for_as_it_asks_for_twelve_hours_in_all() {
        let (pauses_of_our_own, _) = pauses(None).await;
        assert_eq!(pauses_of_our_own.len(), 11);
        assert_eq!(pauses_of_our_own.into_iter().max(), Some(120));
        // Seconds that the source asks for, and number of pauses.
        for (asked, count) in [(0, 11), (3_600, 11), (7_200, 6), (43_200, 1)] {
            let (pauses, error) = pauses(Some(Duration::from_secs(asked))).await;
            assert_eq!(pauses, vec![asked; count]);
            assert!(error.starts_with("The service is busy"), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_longer_retry_after_ends_the_fetch_with_the_time_of_the_next_try() {
        for (asked, words) in [
            (43_201, "in 12 hours, from 2"),
            (86_400, "in 24 hours, from 2"),
            (u64::MAX, "in 52 weeks, from 2"),
        ] {
            let (pauses, error) = pauses(Some(Duration::from_secs(asked))).await;
            assert!(pauses.is_empty(), "{pauses:?}");
            assert!(error.contains(words), "{error}");
            assert!(error.ends_with("Z on"), "{error}");
        }
    }
}
