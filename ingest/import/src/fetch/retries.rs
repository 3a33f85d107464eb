//! Retries of a fetch: a limited number, with growing pauses.

use crate::stats::StageStats;
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use indicatif::HumanDuration;
use millrace_sources::FetchError;
use std::time::Duration;

const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(120);
/// Longest pause that a source may ask for: limits of export APIs are of an hour.
const PAUSE_ASKED_MAX: Duration = Duration::from_secs(3_600);

/// Attempts that are left for one operation.
#[derive(Debug)]
pub(super) struct Retries {
    pauses: ExponentialBackoff,
    tries_max: usize,
    tried: usize,
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
        }
    }

    /// Waits after a failure, for as long as the source asks, an hour at most, or the next pause,
    /// and shows the wait in the progress.
    ///
    /// # Errors
    /// The given error, if it is final or no attempt is left.
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
            Some(asked) => asked.min(PAUSE_ASKED_MAX),
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn no_pause_is_longer_than_two_minutes_or_an_hour_if_the_source_asks() {
        let day = Duration::from_secs(86_400);
        // Pause that the source asks for, and the longest that is made, in seconds.
        let table = [(None, 120), (Some(day), 3_600), (Some(Duration::ZERO), 0)];
        let stats = StageStats::default();
        for (after, longest) in table {
            let (mut retries, mut pauses) = (Retries::new(12), Vec::new());
            loop {
                let message = "The service is busy.".to_owned();
                let error = FetchError::Retryable { after, message };
                let begun_at = Instant::now();
                let waited = retries.wait_after(error, "a part", &stats);
                if waited.await.is_err() {
                    break;
                }
                pauses.push(begun_at.elapsed().as_secs());
            }
            assert_eq!(pauses.len(), 11, "{after:?}");
            assert_eq!(pauses.into_iter().max(), Some(longest), "{after:?}");
        }
    }
}
