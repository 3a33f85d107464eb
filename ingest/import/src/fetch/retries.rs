//! Retries of a fetch: a limited number, with growing pauses.

use crate::stats::StageStats;
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use indicatif::HumanDuration;
use millrace_sources::FetchError;
use std::time::Duration;

const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(120);

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

    /// Waits after a failure, for as long as the source asks or the next pause, and shows the wait
    /// in the progress.
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
        let pause = after.unwrap_or(pause);
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
