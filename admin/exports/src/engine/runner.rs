//! One run: claim, progress, time-out, tries.

use super::delivery::{Progress, deliver};
use super::notices::Notice;
use super::{Inner, metrics};
use crate::destination::Delivered;
use crate::error::{ExportError, Outlook};
use backon::{ConstantBuilder, Retryable};
use millrace_catalog::{
    ClaimedRun, ExportInterval, LogLevel, NewExportLog, RunOutcome, RunProgress, RunStatus,
};
use millrace_rows::counted;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How many times a claim is extended before it would lapse.
const EXTENDED_TIMES: u32 = 4;
/// How much longer each pause between tries is than the one before.
const PAUSE_FACTOR: u32 = 4;
/// How long it may take to take back what was delivered.
const TAKE_BACK_TIMEOUT: Duration = Duration::from_secs(5);
const HOUR: Duration = Duration::from_secs(3_600);

/// Claims a run and makes it in the background; `false` if none is due, or there is no room.
pub(super) async fn claim_one(inner: &Arc<Inner>) -> bool {
    let Ok(slot) = Arc::clone(&inner.slots).try_acquire_owned() else {
        return false;
    };
    let turns = inner.turns().clone();
    let claimed = inner
        .catalog
        .claim_export_run(inner.options.lapse_after, &turns)
        .await;
    match claimed {
        Ok(Some(claimed)) => {
            inner.turns().had(claimed.export.organization_id);
            let inner = Arc::clone(inner);
            let tasks = inner.tasks.clone();
            tasks.spawn(async move {
                make(&inner, claimed).await;
                drop(slot);
                // Short runs of a long backfill would otherwise wait for the clock, each.
                inner.freed.notify_one();
                inner.ended.notify_one();
            });
            true
        }
        Ok(None) => false,
        Err(error) => {
            tracing::warn!(%error, "no export run can be claimed; trying again");
            false
        }
    }
}

/// How a try ended.
enum Ended {
    Delivered(Delivered),
    Failed(ExportError),
    TimedOut(Duration),
    /// Somebody cancelled or deleted it.
    Lost,
    /// The process stops.
    Stopped,
}

async fn make(inner: &Inner, claimed: ClaimedRun) {
    let (run_id, export_id) = (claimed.run.id, claimed.export.id);
    tracing::info!(%export_id, %run_id, end = %claimed.run.data_interval_end, "an export runs");
    let progress = Progress::new();
    let stopped = CancellationToken::new();
    let began = Instant::now();
    let delivering = deliver(inner, &claimed, &progress, &stopped);
    let limit = time_limit(&claimed.export.interval);
    let mut delivering = std::pin::pin!(delivering);
    let interrupted = tokio::select! {
        outcome = &mut delivering => {
            let ended = match outcome {
                Ok(delivered) => Ended::Delivered(delivered),
                Err(error) => Ended::Failed(error),
            };
            return record_end(inner, &claimed, &progress, began, ended).await;
        }
        gone = extend(inner, &claimed, &progress) => match gone {
            Gone::Cancelled => Ended::Lost,
            // What would be taken back may be that of whoever claims it next.
            Gone::Lapsed => {
                tracing::warn!(%run_id, "the claim of a run has lapsed; it is made again");
                return;
            }
        },
        () = inner.stopped.cancelled() => Ended::Stopped,
        () = tokio::time::sleep(limit) => Ended::TimedOut(limit),
    };
    stopped.cancel();
    // It takes back what it has delivered, if the other side lets it. What is published by then was delivered
    // all the same, and would be delivered once more if it was forgotten.
    let ended = match tokio::time::timeout(TAKE_BACK_TIMEOUT, delivering).await {
        Ok(Ok(delivered)) => Ended::Delivered(delivered),
        Ok(Err(_)) | Err(_) => interrupted,
    };
    record_end(inner, &claimed, &progress, began, ended).await;
}

/// How a claim ended.
enum Gone {
    /// While nobody else could have it: somebody cancelled or deleted the run.
    Cancelled,
    /// It was not extended in time.
    Lapsed,
}

/// Says again and again how far the run is; ends when the claim is gone.
async fn extend(inner: &Inner, claimed: &ClaimedRun, progress: &Progress) -> Gone {
    let time = inner.options.lapse_after;
    let mut held_until = Instant::now() + time;
    loop {
        tokio::time::sleep(time / EXTENDED_TIMES).await;
        let asked = Instant::now();
        let lapses = tokio::time::Instant::from_std(held_until);
        let error = claimed.run.latest_error.clone();
        let told = told(RunStatus::Running, progress, error, false);
        let (id, claim) = (claimed.run.id, claimed.run.claim);
        let recorded = inner.catalog.record_export_run(id, claim, told, time);
        match tokio::time::timeout_at(lapses, recorded).await {
            Ok(Ok(RunOutcome::Lost)) if Instant::now() < held_until => return Gone::Cancelled,
            Ok(Ok(RunOutcome::Lost)) | Err(_) => return Gone::Lapsed,
            Ok(Ok(_)) => held_until = asked + time,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the progress of a run cannot be recorded; trying again");
            }
        }
    }
}

fn told(
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

async fn record_end(
    inner: &Inner,
    claimed: &ClaimedRun,
    progress: &Progress,
    began: Instant,
    ended: Ended,
) {
    let (status, error, again_after) = verdict(inner, claimed, &ended);
    let waits = matches!(&ended, Ended::Failed(error) if error.outlook == Outlook::Waits);
    let mut record = told(status, progress, error.clone(), waits);
    let mut line = NewExportLog {
        level: LogLevel::Info,
        message: "The process stops; another try follows.".to_owned(),
    };
    match &ended {
        Ended::Lost => return,
        Ended::Delivered(delivered) => {
            let rows = progress.rows.load(Ordering::Relaxed);
            metrics::delivered(rows, delivered.bytes);
            record.bytes_exported = Some(i64::try_from(delivered.bytes).unwrap_or(i64::MAX));
            line.message = summary(rows, delivered, began.elapsed());
        }
        Ended::Stopped => {}
        Ended::Failed(_) | Ended::TimedOut(_) => {
            line.level = LogLevel::Error;
            line.message = error.clone().unwrap_or_default();
        }
    }
    let (id, claim) = (claimed.run.id, claimed.run.claim);
    let recorded = (|| {
        let record = record.clone();
        inner
            .catalog
            .record_export_run(id, claim, record, again_after)
    })
    .retry(
        ConstantBuilder::default()
            .with_delay(Duration::from_millis(300))
            .with_max_times(10),
    )
    .await;
    let outcome = match recorded {
        Ok(outcome) => outcome,
        Err(error) => {
            tracing::warn!(%error, run = %id, "the end of a run cannot be recorded; it is made again");
            return;
        }
    };
    if outcome == RunOutcome::Lost {
        return;
    }
    if !status.is_open() {
        metrics::ended(status);
    }
    // One that waits says the same at every try, for days.
    if !(waits && error == claimed.run.latest_error) {
        let written = inner
            .catalog
            .write_export_logs(claimed.export.id, id, vec![line])
            .await;
        if let Err(error) = written {
            tracing::warn!(%error, run = %id, "a line of a run's log is lost");
        }
    }
    notify(inner, claimed, status, &outcome, error.as_deref()).await;
}

/// The status after a try, what went wrong, and when the next one may be.
fn verdict(
    inner: &Inner,
    claimed: &ClaimedRun,
    ended: &Ended,
) -> (RunStatus, Option<String>, Duration) {
    let retries = u32::try_from(claimed.run.failures_count).unwrap_or(u32::MAX);
    match ended {
        Ended::Delivered(_) => (RunStatus::Completed, None, Duration::ZERO),
        Ended::TimedOut(limit) => {
            let hours = limit.as_secs() / HOUR.as_secs();
            let error = format!("The run was not done after {hours} hours.");
            (RunStatus::TimedOut, Some(error), Duration::ZERO)
        }
        Ended::Failed(error) => {
            let again = match error.outlook {
                Outlook::Retry => retries < inner.options.retries_max,
                Outlook::Waits => true,
                Outlook::Hopeless => false,
            };
            let status = if again {
                RunStatus::FailedRetryable
            } else {
                RunStatus::Failed
            };
            let factor = match error.outlook {
                // The catalog makes pauses longer by the time that the export has waited.
                Outlook::Waits => 1,
                _ => PAUSE_FACTOR.saturating_pow(retries),
            };
            let pause = inner.options.retry_pause * factor;
            (
                status,
                Some(error.message.clone()),
                pause.min(inner.options.retry_pause_max),
            )
        }
        Ended::Lost | Ended::Stopped => (
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

/// How long one try may take: long enough for a window that is much larger than usual.
fn time_limit(interval: &str) -> Duration {
    // The text was an interval when it was kept.
    match interval.parse().unwrap_or(ExportInterval::Hour) {
        ExportInterval::Minutes(_) => HOUR,
        ExportInterval::Hour => 6 * HOUR,
        ExportInterval::Day => 24 * HOUR,
        ExportInterval::Week => 72 * HOUR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_may_take_so_many_hours_by_its_interval() {
        let table = [
            ("every 5 minutes", 1),
            ("hour", 6),
            ("day", 24),
            ("week", 72),
        ];
        for (interval, hours) in table {
            assert!(interval.parse::<ExportInterval>().is_ok(), "{interval}");
            assert_eq!(time_limit(interval), hours * HOUR, "{interval}");
        }
    }

    #[test]
    fn counts_are_spelled_right() {
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
