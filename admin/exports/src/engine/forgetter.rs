//! Forgets runs and lines that are older than they are kept: as long as it leads, from time to time,
//! in pieces that nobody notices.

use super::Inner;
use super::leader::Leader;
use millrace_catalog::{Catalog, CatalogError};
use std::convert::Infallible;
use std::time::Duration;

/// How much is looked at at a time.
const PIECE: u64 = 500;
/// Between two pieces others get at the catalog: SQLite has one writer.
const PAUSE: Duration = Duration::from_millis(200);

/// Forgets again and again.
pub(super) async fn forget(inner: &Inner, leads: &Leader) -> Infallible {
    loop {
        if !leads.now() {
            tokio::time::sleep(inner.options.ask_every).await;
            continue;
        }
        if let Err(error) = forget_once(inner, leads).await {
            tracing::warn!(%error, "old runs of exports cannot be forgotten; trying again later");
        }
        tokio::time::sleep(inner.options.forget_every).await;
    }
}

/// Forgets all that is too old, unless another process leads meanwhile, which does the rest.
async fn forget_once(inner: &Inner, leads: &Leader) -> Result<(), CatalogError> {
    let (catalog, options) = (&inner.catalog, &inner.options);
    let mut lines = 0;
    if let Some(kept) = options.logs_kept {
        lines = pieces(leads, || catalog.forget_export_logs(kept, PIECE)).await?;
    }
    let (mut runs, mut backfills) = (0, 0);
    if let Some(kept) = options.runs_kept {
        runs = forget_runs(catalog, kept, leads).await?;
        backfills = pieces(leads, || catalog.forget_export_backfills(kept, PIECE)).await?;
    }
    if lines + runs + backfills > 0 {
        tracing::info!(
            runs,
            lines,
            backfills,
            "what exports said long ago is forgotten"
        );
    }
    Ok(())
}

async fn forget_runs(
    catalog: &Catalog,
    kept: Duration,
    leads: &Leader,
) -> Result<u64, CatalogError> {
    let (mut count, mut from) = (0, None);
    while leads.now() {
        let piece = catalog.forget_export_runs(kept, from, PIECE).await?;
        count += piece.count;
        if piece.next.is_none() {
            break;
        }
        from = piece.next;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(count)
}

/// Forgets piece by piece until one is not full; answers how much.
async fn pieces<F: Future<Output = Result<u64, CatalogError>>>(
    leads: &Leader,
    forget: impl Fn() -> F,
) -> Result<u64, CatalogError> {
    let mut count = 0;
    while leads.now() {
        let gone = forget().await?;
        count += gone;
        if gone < PIECE {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(count)
}
