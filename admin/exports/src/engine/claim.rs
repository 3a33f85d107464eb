//! Claim of a run: extended for as long as this process makes it, with the progress so far, and
//! ended with the status of its try.

use super::delivery::Progress;
use super::planner::{PlanError, in_time};
use super::state::Inner;
use crate::records::{ClaimedRun, ExportRuns, RunOutcome, RunProgress};
use backon::{ConstantBuilder, Retryable};
use millrace_catalog::RunStatus;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Renewals of a claim before it would lapse.
const EXTENSIONS_PER_CLAIM: u32 = 4;

/// Pause between two attempts to record the end of a try.
const RECORD_PAUSE: Duration = Duration::from_millis(300);

/// Claim of a run, as far as this process knows.
pub(super) struct Claim<'a> {
    inner: &'a Inner,
    claimed: &'a ClaimedRun,
    /// Latest error of the run, which is recorded with its progress.
    error: Option<String>,
    held_until: Instant,
}

/// Reason that a claim ended.
pub(super) enum ClaimEnd {
    /// The run was cancelled or deleted, while no other process could claim it.
    Cancelled,
    /// The claim was not renewed in time.
    Lapsed,
}

impl<'a> Claim<'a> {
    /// Claim that was just made.
    pub(super) fn new(inner: &'a Inner, claimed: &'a ClaimedRun) -> Self {
        let held_until = Instant::now() + inner.options.lapse_after;
        Self {
            inner,
            claimed,
            error: claimed.run.latest_error.clone(),
            held_until,
        }
    }

    /// Sets the error that is recorded from the next extension on, while what was delivered is
    /// taken back.
    pub(super) fn set_error(&mut self, error: String) {
        self.error = Some(error);
    }

    /// Records the run's progress at intervals, which renews the claim; returns when the claim is
    /// gone. May be dropped and called again.
    pub(super) async fn extend(&mut self, progress: &Progress) -> ClaimEnd {
        let (time, run) = (self.inner.options.lapse_after, &self.claimed.run);
        loop {
            tokio::time::sleep(time / EXTENSIONS_PER_CLAIM).await;
            let sent_at = Instant::now();
            let lapses = tokio::time::Instant::from_std(self.held_until);
            let error = self.error.clone();
            let recorded_progress = run_progress(RunStatus::Running, progress, error, false);
            let catalog = &self.inner.catalog;
            let recorded =
                ExportRuns::new(catalog).record(run.id, run.claim, recorded_progress, time);
            match tokio::time::timeout_at(lapses, recorded).await {
                Ok(Ok(RunOutcome::Lost)) if Instant::now() < self.held_until => {
                    return ClaimEnd::Cancelled;
                }
                Ok(Ok(RunOutcome::Lost)) | Err(_) => {
                    tracing::warn!(run_id = %run.id, "the claim of a run has lapsed; the run is repeated");
                    return ClaimEnd::Lapsed;
                }
                Ok(Ok(_)) => self.held_until = sent_at + time,
                Ok(Err(error)) => {
                    if self.inner.is_logged("progress", &error) {
                        tracing::warn!(%error, "the progress of a run cannot be recorded; trying again");
                    }
                }
            }
        }
    }
}

/// Records the status that ends a try, with retries until its claim has lapsed: by then the run is
/// claimed anew, and made again. The outcome is that of the record that was kept, though its answer
/// was lost.
pub(super) async fn record_try(
    inner: &Inner,
    claimed: &ClaimedRun,
    record: &RunProgress,
    again_after: Duration,
) -> Result<RunOutcome, PlanError> {
    let (catalog, run) = (&inner.catalog, &claimed.run);
    let mut attempts = 0_u32;
    let attempt = || {
        attempts += 1;
        let recording =
            ExportRuns::new(catalog).record(run.id, run.claim, record.clone(), again_after);
        in_time(inner, recording)
    };
    let outcome = until_lapsed(inner.options.lapse_after, attempt).await?;
    if outcome != RunOutcome::Lost || attempts == 1 {
        return Ok(outcome);
    }
    // An attempt that had no answer may have been kept, which ended the claim.
    in_time(
        inner,
        ExportRuns::new(catalog).recorded(run.id, record.status),
    )
    .await
}

/// Retries an attempt until it succeeds, or a claim that was renewed by now has lapsed.
async fn until_lapsed<T, E, F: Future<Output = Result<T, E>>>(
    lapse_after: Duration,
    attempt: impl FnMut() -> F,
) -> Result<T, E> {
    let lapses_at = tokio::time::Instant::now() + lapse_after;
    let pauses = ConstantBuilder::default()
        .with_delay(RECORD_PAUSE)
        .without_max_times();
    attempt
        .retry(pauses)
        .when(|_| tokio::time::Instant::now() < lapses_at)
        .await
}

/// Progress of a run, for its row.
pub(super) fn run_progress(
    status: RunStatus,
    progress: &Progress,
    latest_error: Option<String>,
    waits: bool,
) -> RunProgress {
    let counted = |count: u64| Some(i64::try_from(count).unwrap_or(i64::MAX));
    RunProgress {
        status,
        records_completed: counted(progress.rows.load(Ordering::Relaxed)),
        records_total_count: progress.total(),
        bytes_exported: counted(progress.bytes.load(Ordering::Relaxed)),
        cursor: None,
        latest_error,
        waits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_try_is_recorded_until_its_claim_has_lapsed() {
        for lapse_seconds in [1, 5, 60] {
            let lapse_after = Duration::from_secs(lapse_seconds);
            // A catalog that answers again just before the claim lapses.
            let answers_at = Instant::now() + lapse_after - RECORD_PAUSE;
            let late = || async move {
                match Instant::now() < answers_at {
                    true => Err(()),
                    false => Ok(()),
                }
            };
            assert_eq!(until_lapsed(lapse_after, late).await, Ok(()));
            let begun = Instant::now();
            let never = || async { Err::<(), ()>(()) };
            assert_eq!(until_lapsed(lapse_after, never).await, Err(()));
            let took = begun.elapsed();
            let expected = lapse_after..lapse_after + 2 * RECORD_PAUSE;
            assert!(expected.contains(&took), "{lapse_after:?}: {took:?}");
        }
    }
}
