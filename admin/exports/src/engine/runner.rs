//! Carries out one run: try, time-out, end, retries.

use super::claim::{Claim, ClaimEnd, record_try, run_progress};
use super::delivery::{Progress, deliver};
use super::lost_queries::QueryId;
use super::metrics;
use super::notices::Notice;
use super::panics::caught;
use super::planner::in_time;
use super::state::Inner;
use crate::destination::Delivered;
use crate::error::{ExportError, ExportErrorKind};
use crate::records::{
    ClaimedRun, ExportInterval, ExportLogs, ExportRuns, NewExportLog, RunOutcome, TAKE_BACK_MAX,
};
use millrace_catalog::{CatalogError, LogLevel, RunStatus};
use millrace_rows::counted;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Factor by which each pause between retries is longer than the one before.
const PAUSE_FACTOR: u32 = 4;
/// Time limit for the end of an interrupted delivery: its publication, or its abortion. A process
/// that stops waits for longer than that.
pub const TAKE_BACK_TIMEOUT: Duration = TAKE_BACK_MAX;
const HOUR: Duration = Duration::from_secs(3_600);

/// Claims a run and carries it out in the background; `false` if none is due, or no slot is free.
pub(super) async fn claim_one(inner: &Arc<Inner>) -> bool {
    let Ok(slot) = Arc::clone(&inner.slots).try_acquire_owned() else {
        return false;
    };
    let mut round_robin = inner.round_robin().clone();
    let claimed = ExportRuns::new(&inner.catalog)
        .claim(inner.options.lapse_after, &mut round_robin)
        .await;
    *inner.round_robin() = round_robin;
    match claimed {
        Ok(Some(claimed)) => {
            let inner = Arc::clone(inner);
            let tasks = inner.tasks.clone();
            tasks.spawn(async move {
                execute_or_fail(&inner, &claimed).await;
                drop(slot);
                // Otherwise each short run of a long backfill would wait for the next tick.
                inner.freed.notify_one();
                inner.ended.notify_one();
            });
            true
        }
        Ok(None) => false,
        Err(error) => {
            // It is tried again four times a second.
            if inner.is_logged("claim", &error) {
                tracing::warn!(%error, "an export run cannot be claimed; trying again");
            }
            false
        }
    }
}

/// Outcome of a try.
enum TryOutcome {
    Delivered(Delivered),
    Failed(ExportError),
    TimedOut(Duration),
    /// The run was cancelled or deleted.
    Lost,
    /// The process is stopping.
    Stopped,
}

/// Carries a run out. A panic is a failed try: otherwise the claim would lapse, and the run be made
/// again for ever.
async fn execute_or_fail(inner: &Inner, claimed: &ClaimedRun) {
    let export_id = claimed.export.id;
    let Err(panicked) = caught(export_id, execute(inner, claimed)).await else {
        return;
    };
    let (progress, failed) = (Progress::new(), TryOutcome::Failed(panicked.into()));
    let recording = record_end(inner, claimed, &progress, Instant::now(), failed);
    // If that panics as well, the run is claimed again.
    let _ = caught(export_id, recording).await;
}

/// Delivers a run; a panic is an error of the delivery, like others.
async fn deliver_or_fail(
    inner: &Inner,
    claimed: &ClaimedRun,
    progress: &Progress,
    stopped: &CancellationToken,
) -> Result<Delivered, ExportError> {
    let delivering = deliver(inner, claimed, progress, stopped);
    caught(claimed.export.id, delivering).await?
}

async fn execute(inner: &Inner, claimed: &ClaimedRun) {
    let (run_id, export_id) = (claimed.run.id, claimed.export.id);
    tracing::info!(%export_id, %run_id, end = %claimed.run.data_interval_end, "an export runs");
    let progress = Progress::new();
    let stopped = CancellationToken::new();
    let began = Instant::now();
    let delivering = deliver_or_fail(inner, claimed, &progress, &stopped);
    let limit = time_limit(ExportInterval::of(&claimed.export)).min(inner.options.try_max);
    let mut delivering = std::pin::pin!(delivering);
    let mut claim = Claim::new(inner, claimed);
    let interrupted = tokio::select! {
        outcome = &mut delivering => {
            let ended = match outcome {
                Ok(delivered) => TryOutcome::Delivered(delivered),
                Err(error) => TryOutcome::Failed(error),
            };
            return record_end(inner, claimed, &progress, began, ended).await;
        }
        claim_end = claim.extend(&progress) => match claim_end {
            ClaimEnd::Cancelled => TryOutcome::Lost,
            // Aborting might remove the delivery of the process that claims the run next.
            ClaimEnd::Lapsed => return,
        },
        () = inner.stopped.cancelled() => TryOutcome::Stopped,
        () = tokio::time::sleep(limit) => TryOutcome::TimedOut(limit),
    };
    if let TryOutcome::TimedOut(limit) = &interrupted {
        claim.set_error(timed_out(*limit));
    }
    stopped.cancel();
    if let Some(ended) = take_back(&mut claim, &progress, delivering, interrupted).await {
        record_end(inner, claimed, &progress, began, ended).await;
    }
}

/// Waits for the end of an interrupted delivery, which is aborted if the other side allows it. Rows
/// that are published by then were delivered all the same, and would be delivered twice if that was
/// not recorded: so the claim is extended meanwhile. `None`: it has lapsed.
async fn take_back(
    claim: &mut Claim<'_>,
    progress: &Progress,
    delivering: impl Future<Output = Result<Delivered, ExportError>>,
    mut interrupted: TryOutcome,
) -> Option<TryOutcome> {
    let mut ending = std::pin::pin!(tokio::time::timeout(TAKE_BACK_TIMEOUT, delivering));
    loop {
        let has_claim = !matches!(interrupted, TryOutcome::Lost);
        tokio::select! {
            ended = &mut ending => return Some(match ended {
                Ok(Ok(delivered)) => TryOutcome::Delivered(delivered),
                Ok(Err(_)) | Err(_) => interrupted,
            }),
            claim_end = claim.extend(progress), if has_claim => match claim_end {
                ClaimEnd::Cancelled => interrupted = TryOutcome::Lost,
                ClaimEnd::Lapsed => return None,
            },
        }
    }
}

async fn record_end(
    inner: &Inner,
    claimed: &ClaimedRun,
    progress: &Progress,
    began: Instant,
    ended: TryOutcome,
) {
    let (status, error, again_after) = status_after(inner, claimed, &ended);
    let waits = match &ended {
        TryOutcome::Failed(error) => error.kind == ExportErrorKind::Waiting,
        _ => false,
    };
    let mut record = run_progress(status, progress, error.clone(), waits);
    let mut line = NewExportLog {
        level: LogLevel::Info,
        message: "The process stops; another try follows.".to_owned(),
    };
    match &ended {
        TryOutcome::Lost => return,
        TryOutcome::Delivered(delivered) => {
            let rows = progress.rows.load(Ordering::Relaxed);
            metrics::delivered(rows, delivered.bytes);
            record.bytes_exported = Some(i64::try_from(delivered.bytes).unwrap_or(i64::MAX));
            line.message = summary(rows, delivered, began.elapsed());
        }
        TryOutcome::Stopped => {}
        TryOutcome::Failed(_) | TryOutcome::TimedOut(_) => {
            line.level = LogLevel::Error;
            line.message = error.clone().unwrap_or_default();
        }
    }
    let id = claimed.run.id;
    let outcome = match record_try(inner, claimed, &record, again_after).await {
        Ok(outcome) => outcome,
        Err(error) => {
            tracing::warn!(%error, run = %id, "the end of a run could not be recorded while it was claimed; the run is repeated");
            return;
        }
    };
    if outcome == RunOutcome::Lost {
        return;
    }
    if status == RunStatus::Completed {
        inner.lost_queries().forget(QueryId::of(&claimed.export));
    }
    if !status.is_open() {
        metrics::ended(status);
    }
    // A waiting run has the same error at every try, for days.
    if !(waits && error == claimed.run.latest_error) {
        let writing = ExportLogs::new(&inner.catalog).write(claimed.export.id, id, vec![line]);
        if let Err(error) = in_time(inner, writing).await {
            tracing::warn!(%error, run = %id, "a line of a run's log is lost");
        }
    }
    notify(inner, claimed, status, &outcome, error.as_deref()).await;
}

/// Status of the run after a try, its error, and the pause before the next try.
fn status_after(
    inner: &Inner,
    claimed: &ClaimedRun,
    ended: &TryOutcome,
) -> (RunStatus, Option<String>, Duration) {
    let retries = u32::try_from(claimed.run.failures_count).unwrap_or(u32::MAX);
    match ended {
        TryOutcome::Delivered(_) => (RunStatus::Completed, None, Duration::ZERO),
        TryOutcome::TimedOut(limit) => {
            let error = timed_out(*limit);
            (RunStatus::TimedOut, Some(error), Duration::ZERO)
        }
        TryOutcome::Failed(error) => {
            let again = match error.kind {
                ExportErrorKind::Retryable => retries < inner.options.retries_max,
                ExportErrorKind::Waiting => true,
                ExportErrorKind::Permanent => false,
            };
            let status = if again {
                RunStatus::FailedRetryable
            } else {
                RunStatus::Failed
            };
            let factor = match error.kind {
                // The catalog lengthens pauses by the time that the export has waited.
                ExportErrorKind::Waiting => 1,
                _ => PAUSE_FACTOR.saturating_pow(retries),
            };
            let pause = inner.options.retry_pause * factor;
            (
                status,
                Some(error.message.clone()),
                pause.min(inner.options.retry_pause_max),
            )
        }
        TryOutcome::Lost | TryOutcome::Stopped => (
            RunStatus::Starting,
            claimed.run.latest_error.clone(),
            Duration::ZERO,
        ),
    }
}

async fn notify(
    inner: &Inner,
    claimed: &ClaimedRun,
    status: RunStatus,
    outcome: &RunOutcome,
    error: Option<&str>,
) {
    let why = error.unwrap_or_default();
    let notice = match outcome {
        RunOutcome::Paused => Notice::Paused,
        RunOutcome::WaitsLong => Notice::Waits,
        _ if matches!(status, RunStatus::Failed | RunStatus::TimedOut) => Notice::RunFailed,
        _ => return,
    };
    inner.notices.tell(notice, &claimed.export, why).await;
}

fn summary(rows: u64, delivered: &Delivered, took: Duration) -> String {
    let mut text = format!(
        "Delivered {} ({}) in {:.1} s.",
        counted(rows, "row"),
        counted(delivered.bytes, "byte"),
        took.as_secs_f64()
    );
    if delivered.rows_changed > 0 {
        text += &format!(
            " In {} of these there were characters that the destination cannot store.",
            delivered.rows_changed
        );
    }
    text
}

fn timed_out(limit: Duration) -> String {
    let hours = counted(limit.as_secs() / HOUR.as_secs(), "hour");
    format!("The run was not done after {hours}.")
}

/// Time limit of one try: long enough for a window that is much larger than usual.
fn time_limit(interval: Result<ExportInterval, CatalogError>) -> Duration {
    match interval {
        Ok(ExportInterval::Minutes(_)) => HOUR,
        Ok(ExportInterval::Hour) => 6 * HOUR,
        Ok(ExportInterval::Day) => 24 * HOUR,
        Ok(ExportInterval::Week) => 72 * HOUR,
        // The window of a run is known whatever the interval is: it is delivered.
        Err(error) => {
            tracing::warn!(%error, "a run has the time limit of an hour's window");
            6 * HOUR
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn the_time_limit_of_a_try_depends_on_the_interval() {
        let wrong = CatalogError::WrongInterval {
            export_id: Uuid::nil(),
            interval: "fortnight".to_owned(),
        };
        let table = [
            (Ok(ExportInterval::Minutes(5)), 1),
            (Ok(ExportInterval::Hour), 6),
            (Ok(ExportInterval::Day), 24),
            (Ok(ExportInterval::Week), 72),
            (Err(wrong), 6),
        ];
        for (interval, hours) in table {
            let name = format!("{interval:?}");
            assert_eq!(time_limit(interval), hours * HOUR, "{name}");
        }
    }

    #[test]
    fn counts_have_the_right_plurals() {
        let table = [
            (1, 1, 0, "Delivered 1 row (1 byte) in 1.5 s."),
            (0, 2, 0, "Delivered 0 rows (2 bytes) in 1.5 s."),
            (
                1_000,
                2_000,
                1,
                "Delivered 1,000 rows (2,000 bytes) in 1.5 s. In 1 of these there were characters that the \
                 destination cannot store.",
            ),
        ];
        for (rows, bytes, rows_changed, expected) in table {
            let delivered = Delivered {
                rows: None,
                bytes,
                rows_changed,
            };
            let took = Duration::from_millis(1_500);
            assert_eq!(summary(rows, &delivered, took), expected);
        }
    }
}
