//! How often and when something is tried again.

use crate::meter::Meter;
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use indicatif::HumanDuration;
use millrace_sources::FetchError;
use std::time::Duration;

const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(120);

/// Tries that are left.
#[derive(Debug)]
pub(super) struct Tries {
    pauses: ExponentialBackoff,
    tries_max: usize,
    tried: usize,
}

impl Tries {
    /// So many in a row; the pauses between them grow.
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

    /// After a failure: waits, for as long as the source asks if it does, and says so; or gives the error back, when
    /// trying again is of no use or was tried often enough.
    pub(super) async fn after(
        &mut self,
        error: FetchError,
        what: &str,
        meter: &Meter,
    ) -> Result<(), FetchError> {
        let FetchError::Again { after, message } = error else {
            return Err(error);
        };
        self.tried += 1;
        let Some(pause) = self.pauses.next() else {
            return Err(FetchError::Again { after, message });
        };
        let pause = after.unwrap_or(pause);
        let told = format!(
            "{what}: {}; try {} of {} in {}",
            message.trim_end_matches('.'),
            self.tried + 1,
            self.tries_max,
            HumanDuration(pause)
        );
        meter.waits(&told, pause);
        tokio::time::sleep(pause).await;
        Ok(())
    }
}
