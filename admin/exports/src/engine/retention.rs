//! Deletes runs and log lines that are older than their retention: at intervals, while this process
//! leads, in batches small enough not to disturb others.

use super::leader::Leader;
use super::planner::{PlanError, in_time};
use super::state::Inner;
use crate::records::ExportPlanner;
use millrace_catalog::CatalogError;
use std::convert::Infallible;
use std::time::Duration;

/// Rows that are examined at a time.
const BATCH_ROWS: u64 = 500;
/// Pause between two batches, in which others use the catalog: SQLite has one writer.
const PAUSE: Duration = Duration::from_millis(200);

/// Deletes old runs and log lines at intervals.
pub(super) async fn run(inner: &Inner, leads: &Leader) -> Infallible {
    loop {
        if !leads.now() {
            tokio::time::sleep(inner.options.ask_every).await;
            continue;
        }
        if let Err(error) = apply(inner, leads).await {
            tracing::warn!(%error, "old runs of exports cannot be deleted; trying again later");
        }
        tokio::time::sleep(inner.options.retention_every).await;
    }
}

/// Deletes all that is too old, unless another process leads meanwhile, which does the rest.
async fn apply(inner: &Inner, leads: &Leader) -> Result<(), PlanError> {
    let (catalog, options) = (&inner.catalog, &inner.options);
    let mut lines = 0;
    if let Some(kept) = options.logs_kept {
        lines = prune_in_batches(inner, leads, || {
            ExportPlanner::new(catalog).prune_logs(kept, BATCH_ROWS)
        })
        .await?;
    }
    let (mut runs, mut backfills) = (0, 0);
    if let Some(kept) = options.runs_kept {
        runs = prune_runs(inner, kept, leads).await?;
        backfills = prune_in_batches(inner, leads, || {
            ExportPlanner::new(catalog).prune_backfills(kept, BATCH_ROWS)
        })
        .await?;
    }
    if lines + runs + backfills > 0 {
        tracing::info!(
            runs,
            lines,
            backfills,
            "old runs and log lines of exports were deleted"
        );
    }
    Ok(())
}

async fn prune_runs(inner: &Inner, kept: Duration, leads: &Leader) -> Result<u64, PlanError> {
    let (mut count, mut from) = (0, None);
    while leads.now() {
        let batch = ExportPlanner::new(&inner.catalog).prune_runs(kept, from, BATCH_ROWS);
        let batch = in_time(inner, batch).await?;
        count += batch.count;
        if batch.next.is_none() {
            break;
        }
        from = batch.next;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(count)
}

/// Deletes batch by batch until one is not full; returns the number of rows.
async fn prune_in_batches<F: Future<Output = Result<u64, CatalogError>>>(
    inner: &Inner,
    leads: &Leader,
    prune: impl Fn() -> F,
) -> Result<u64, PlanError> {
    let mut count = 0;
    while leads.now() {
        let gone = in_time(inner, prune()).await?;
        count += gone;
        if gone < BATCH_ROWS {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(count)
}
