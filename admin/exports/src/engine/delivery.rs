//! The rows of one run: read, counted, handed over, published.

use super::Inner;
use super::source::Source;
use crate::destination::{Delivered, Delivery, Destination};
use crate::error::ExportError;
use crate::rows::Part;
use crate::window::RunScope;
use millrace_catalog::ClaimedRun;
use millrace_rows::counted;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often it is looked whether persons are up to date, and how long at the most.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const LOOKS_MAX: u32 = 120;

/// How far a run is, for those who look while it runs.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Rows that the destination took.
    pub(super) rows: AtomicU64,
    /// Bytes that were sent to it, as they were sent.
    pub(super) bytes: AtomicU64,
    /// Rows that the window has; below 0: not known yet.
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

/// Delivers a run; `stopped` ends it and takes back what is there.
pub(super) async fn deliver(
    inner: &Inner,
    claimed: &ClaimedRun,
    progress: &Progress,
    stopped: &CancellationToken,
) -> Result<Delivered, ExportError> {
    let scope = RunScope::of(&claimed.export, &claimed.run);
    let source = Source::of(&inner.clickhouse, &claimed.export, &scope)?;
    if source.is_of_persons() {
        tokio::select! {
            known = until_known(inner, &scope) => known?,
            () = stopped.cancelled() => return Err(ExportError::retry("The run was interrupted.")),
        }
    }
    let before = source.count().await?;
    progress
        .total
        .store(i64::try_from(before).unwrap_or(i64::MAX), Ordering::Relaxed);
    if before == 0 {
        // Nothing was made before either: what is in a window does not become less.
        return Ok(Delivered::default());
    }
    let destination = (inner.open)(&claimed.export)?;
    let parts = parts(&source, before, destination.as_ref()).await?;
    let mut delivery = destination.begin(&scope, parts).await?;
    let copied = tokio::select! {
        copied = copy(&source, destination.as_ref(), delivery.as_mut(), parts, progress) => copied,
        () = stopped.cancelled() => Err(ExportError::retry("The run was interrupted.")),
    };
    let checked = match copied {
        Ok(copied) => check(&source, before, copied).await.map(|()| copied),
        Err(error) => Err(error),
    };
    match checked {
        Ok(copied) => {
            let delivered = delivery.publish().await?;
            told(&delivered, copied)?;
            Ok(delivered)
        }
        Err(error) => {
            delivery.abort().await;
            Err(error)
        }
    }
}

/// Waits until what the window's events say of persons is applied: that is a second or two later
/// than they are stored. What takes longer is tried again.
async fn until_known(inner: &Inner, scope: &RunScope) -> Result<(), ExportError> {
    let known_from = scope.window.known_from();
    for _ in 0..LOOKS_MAX {
        let watermark = inner.catalog.persons_watermark_of(scope.team_id).await;
        let watermark = watermark.map_err(|error| ExportError::retry(error.to_string()))?;
        if watermark >= Some(known_from) {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Err(ExportError::retry(
        "What the window's events say of persons is not applied yet.",
    ))
}

/// In how many parts the rows are wanted.
async fn parts(
    source: &Source<'_>,
    rows: u64,
    destination: &dyn Destination,
) -> Result<u32, ExportError> {
    if destination.parts(u64::MAX) <= 1 || !source.has_parts() {
        return Ok(1);
    }
    let bytes_estimated = source.bytes_estimate(rows).await?;
    Ok(destination.parts(bytes_estimated).max(1))
}

/// Hands all parts over; answers how many rows they had.
async fn copy(
    source: &Source<'_>,
    destination: &dyn Destination,
    delivery: &mut dyn Delivery,
    count: u32,
    progress: &Progress,
) -> Result<u64, ExportError> {
    let mut copied = 0;
    for index in 0..count {
        let part = Part { index, count };
        let mut reader = source.read(destination.form(), part)?;
        while let Some(bytes) = reader.next().await? {
            let rows = copied + reader.so_far();
            delivery.write(bytes).await?;
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

/// Compares what was handed over with what ClickHouse says. Between the two counts it may have
/// folded rows that were sent twice; apart from that they are equal.
async fn check(source: &Source<'_>, before: u64, copied: u64) -> Result<(), ExportError> {
    if copied == before {
        return Ok(());
    }
    let after = source.count().await?;
    if (after..=before).contains(&copied) {
        return Ok(());
    }
    Err(ExportError::retry(format!(
        "The window has {}, and {} came when it was read; nothing of it was published.",
        counted(before, "row"),
        counted(copied, "row")
    )))
}

/// Compares with what the other side says.
fn told(delivered: &Delivered, copied: u64) -> Result<(), ExportError> {
    match delivered.rows {
        Some(rows) if rows != copied => Err(ExportError::retry(format!(
            "Sent {}, and the destination says it has {rows}.",
            counted(copied, "row")
        ))),
        _ => Ok(()),
    }
}
