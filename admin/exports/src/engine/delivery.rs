//! Delivers the rows of one run: reads, counts, hands over, publishes.

use super::lost_queries::{QueryId, RESTARTS_MAX};
use super::pace::{MinimumPace, PaceGuard};
use super::source::{Reader, RunSource};
use super::state::Inner;
use crate::destination::warehouse::stage::DROP_TIMEOUT;
use crate::destination::{Delivered, Delivery, Destination};
use crate::error::{ExportError, ExportErrorKind};
use crate::records::ClaimedRun;
use crate::rows::WindowPart;
use crate::window::RunScope;
use bytes::Bytes;
use millrace_catalog::PersonWatermark;
use millrace_rows::counted;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Interval at which persons are checked for being up to date.
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// Time for which a destination may take no rows until it may be its doing that the rows end:
/// ClickHouse gives up a connection that nobody reads from (`http_send_timeout`, 30 s unless it
/// lets us say more).
const STALL: Duration = Duration::from_secs(30);
/// Timeout of undoing what was delivered: more than a hundred uploads take.
const ABORT_TIMEOUT: Duration = Duration::from_secs(60);

// A delivery that drops its staging table has the last word on it.
const _: () = assert!(DROP_TIMEOUT.as_secs() < ABORT_TIMEOUT.as_secs());

/// Progress of a run, readable while it runs.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Rows that the destination has taken.
    pub(super) rows: AtomicU64,
    /// Bytes sent to the destination, as they were sent.
    pub(super) bytes: AtomicU64,
    /// Rows of the window; below 0: not known yet.
    total: AtomicI64,
}

impl Progress {
    pub(super) fn new() -> Self {
        let progress = Self::default();
        progress.total.store(-1, Ordering::Relaxed);
        progress
    }

    pub(super) fn total(&self) -> Option<i64> {
        let total = self.total.load(Ordering::Relaxed);
        (total >= 0).then_some(total)
    }
}

/// Delivers a run; `stopped` ends it and aborts the delivery.
pub(super) async fn deliver(
    inner: &Inner,
    claimed: &ClaimedRun,
    progress: &Progress,
    stopped: &CancellationToken,
) -> Result<Delivered, ExportError> {
    if let Some(reason) = &claimed.unknown_settings {
        // The catalog pauses no export for such runs.
        return Err(ExportError::permanent(reason.clone()));
    }
    let scope = RunScope::of(&claimed.export, &claimed.run);
    let source = RunSource::of(inner, &claimed.export, &scope)?;
    if source.is_of_persons() {
        tokio::select! {
            known = until_persons_applied(inner, &scope) => known?,
            () = stopped.cancelled() => return Err(ExportError::retryable("The run was interrupted.")),
        }
    }
    let boot_id = source.boot_id().await?;
    if let Some(boot_id) = boot_id {
        check_lost_queries(inner, claimed, boot_id)?;
    }
    let delivered = deliver_rows(inner, claimed, &scope, &source, progress, stopped).await;
    if let Some(boot_id) = boot_id.filter(|_| source.is_lost()) {
        let query = QueryId::of(&claimed.export);
        inner.lost_queries().record(query, boot_id, Instant::now());
    }
    delivered
}

/// Fails a run if ClickHouse ended again and again during the export's query.
fn check_lost_queries(
    inner: &Inner,
    claimed: &ClaimedRun,
    boot_id: Uuid,
) -> Result<(), ExportError> {
    let (run_id, export_id) = (claimed.run.id, claimed.export.id);
    let query = QueryId::of(&claimed.export);
    if !inner.lost_queries().is_over(query, boot_id, Instant::now()) {
        return Ok(());
    }
    tracing::error!(%export_id, %run_id, "ClickHouse restarted during each of several tries of a customer's query; its run fails");
    Err(ExportError::permanent(format!(
        "ClickHouse ended {RESTARTS_MAX} times while it worked on the query: no run of the export is tried within \
         an hour. Simplify the query, which is then tried at once, or ask the operator for the reason."
    )))
}

/// Reads the rows of a run and hands them over.
async fn deliver_rows(
    inner: &Inner,
    claimed: &ClaimedRun,
    scope: &RunScope,
    source: &RunSource<'_>,
    progress: &Progress,
    stopped: &CancellationToken,
) -> Result<Delivered, ExportError> {
    let before = source.count().await?;
    progress
        .total
        .store(i64::try_from(before).unwrap_or(i64::MAX), Ordering::Relaxed);
    if before == 0 {
        // No earlier try delivered anything either: a window never loses rows.
        return Ok(Delivered::default());
    }
    let destination = (inner.open)(&claimed.export)?;
    let parts = parts(source, before, destination.as_ref()).await?;
    let mut delivery = destination.begin(scope, parts).await?;
    let (to, pace) = (destination.as_ref(), inner.options.pace);
    let copied = tokio::select! {
        copied = copy(source, to, delivery.as_mut(), parts, progress, pace) => copied,
        () = stopped.cancelled() => Err(ExportError::retryable("The run was interrupted.")),
    };
    let checked = match copied {
        Ok(copied) => check(source, before, copied).await.map(|()| copied),
        Err(error) => Err(error),
    };
    match checked {
        Ok(copied) => {
            let delivered = delivery.publish().await?;
            check_destination_count(&delivered, copied)?;
            Ok(delivered)
        }
        Err(error) => {
            // A destination that takes no rows may take no end, either.
            let aborted = tokio::time::timeout(ABORT_TIMEOUT, delivery.abort());
            if aborted.await.is_err() {
                tracing::warn!(
                    "a delivery could not be aborted in time; what it left is overwritten by the next try"
                );
            }
            Err(error)
        }
    }
}

/// Waits until the updates of persons by the window's events are applied: a second or two after the
/// events are stored. If it takes longer, the export waits as it does for ClickHouse, and gives its
/// slot back: the customer has no part in it.
async fn until_persons_applied(inner: &Inner, scope: &RunScope) -> Result<(), ExportError> {
    let known_from = scope.window.known_from();
    let until = Instant::now() + inner.options.persons_wait_max;
    while Instant::now() < until {
        match PersonWatermark::new(&inner.catalog)
            .of(scope.project_id)
            .await
        {
            Ok(watermark) if watermark >= Some(known_from) => return Ok(()),
            Ok(_) => {}
            Err(error) => {
                if inner.is_logged("progress of persons", &error) {
                    tracing::warn!(%error, "the progress of persons cannot be read; asking again");
                }
            }
        }
        tokio::time::sleep(CHECK_EVERY).await;
    }
    let export_id = scope.export_id;
    if inner.is_logged("persons", &export_id) {
        tracing::warn!(%export_id, %known_from, "an export waits for persons");
    }
    Err(ExportError::waiting(
        "Person updates of the window's events are not applied yet. The export waits for them; \
         there is nothing to do about it.",
    ))
}

/// Number of parts in which the destination wants the rows.
async fn parts(
    source: &RunSource<'_>,
    rows: u64,
    destination: &dyn Destination,
) -> Result<u32, ExportError> {
    if destination.parts(u64::MAX) <= 1 || !source.has_parts() {
        return Ok(1);
    }
    let bytes_estimated = source.bytes_estimate(rows).await?;
    Ok(destination.parts(bytes_estimated).max(1))
}

/// Hands all parts over; returns their number of rows.
async fn copy(
    source: &RunSource<'_>,
    destination: &dyn Destination,
    delivery: &mut dyn Delivery,
    count: u32,
    progress: &Progress,
    pace: MinimumPace,
) -> Result<u64, ExportError> {
    let mut copied = 0;
    let mut guard = PaceGuard::new(pace);
    for index in 0..count {
        let part = WindowPart { index, count };
        let mut reader = source.read(destination.form(), part).await?;
        let mut stalled = Duration::ZERO;
        while let Some(bytes) = next_of(&mut reader, stalled).await? {
            let rows = copied + reader.so_far();
            let began = Instant::now();
            guard.write(&mut *delivery, bytes).await?;
            stalled = stalled.max(began.elapsed());
            progress.rows.store(rows, Ordering::Relaxed);
            progress.bytes.store(delivery.bytes(), Ordering::Relaxed);
        }
        let read = reader.finish()?;
        delivery.end_part(read).await?;
        copied += read;
        progress.rows.store(copied, Ordering::Relaxed);
        progress.bytes.store(delivery.bytes(), Ordering::Relaxed);
    }
    Ok(copied)
}

/// Reads the next rows of a part, of which the destination took none for up to `stalled`.
async fn next_of(reader: &mut Reader<'_>, stalled: Duration) -> Result<Option<Bytes>, ExportError> {
    let next = reader.next().await;
    next.map_err(|error| after_stall(error, stalled))
}

/// Error of a read after its destination took no rows for a time. An export does not wait for what
/// a destination may have caused: the try counts.
fn after_stall(error: ExportError, stalled: Duration) -> ExportError {
    if error.kind != ExportErrorKind::Waiting || stalled < STALL {
        return error;
    }
    let seconds = counted(stalled.as_secs(), "second");
    ExportError::retryable(format!(
        "The rows could not be read to their end; before that the destination accepted none for \
         {seconds}."
    ))
}

/// Compares the number of rows handed over with ClickHouse's count. Between the two counts
/// ClickHouse may have merged duplicate rows; apart from that they are equal.
async fn check(source: &RunSource<'_>, before: u64, copied: u64) -> Result<(), ExportError> {
    if copied == before {
        return Ok(());
    }
    let after = source.count().await?;
    if (after..=before).contains(&copied) {
        return Ok(());
    }
    Err(ExportError::retryable(format!(
        "The window has {}, and {} came when it was read; nothing of it was published.",
        counted(before, "row"),
        counted(copied, "row")
    )))
}

/// Compares the number of rows handed over with the destination's own count.
fn check_destination_count(delivered: &Delivered, copied: u64) -> Result<(), ExportError> {
    match delivered.rows {
        Some(rows) if rows != copied => Err(ExportError::retryable(format!(
            "Sent {}, but the destination reports {rows}.",
            counted(copied, "row")
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_ends_after_its_destination_stalled_counts_as_a_try() {
        let table = [
            (ExportError::waiting("away"), 0, ExportErrorKind::Waiting),
            (ExportError::waiting("away"), 29, ExportErrorKind::Waiting),
            (ExportError::waiting("away"), 30, ExportErrorKind::Retryable),
            (
                ExportError::retryable("slow"),
                30,
                ExportErrorKind::Retryable,
            ),
            (
                ExportError::permanent("wrong"),
                30,
                ExportErrorKind::Permanent,
            ),
        ];
        for (error, seconds, kind) in table {
            let name = format!("{error} after {seconds} s");
            let told = after_stall(error, Duration::from_secs(seconds));
            assert_eq!(told.kind, kind, "{name}");
        }
    }
}
