//! Background deletion of rows of deleted projects and organizations, of withdrawn plugins in other
//! organizations, and of old entries of the activity log.
//!
//! Every process with the organization API takes part; the one that holds the lease deletes. All
//! its state is in the catalog, so another process goes on wherever it was killed.

use millrace_catalog::leases::CLEANUP_LEASE;
use millrace_catalog::{Catalog, ChangeError};
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// Pause between two checks for rows to delete.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Pause between two transactions, in which others write: SQLite has one writer.
const PAUSE: Duration = Duration::from_millis(100);
/// Interval of pruning the activity log.
const PRUNE_INTERVAL: Duration = Duration::from_secs(3_600);
/// Lifetime of the lease: a silent process loses it. A transaction takes far less.
const LEASE_LIFETIME: Duration = Duration::from_secs(10);

/// Deletes leftovers periodically, for ever. Entries of the activity log are kept for ever without
/// `activity_kept`.
pub async fn run(catalog: &Catalog, activity_kept: Option<Duration>) -> Infallible {
    let holder = Uuid::new_v4();
    // Not at once: after an upgrade the operator may want to keep what is older than the default.
    let mut prune_at = Instant::now() + PRUNE_INTERVAL;
    loop {
        if let Err(error) = delete(catalog, holder).await {
            tracing::warn!(%error, "rows of what was deleted cannot be deleted; trying again");
        }
        let now = Instant::now();
        if let Some(kept) = activity_kept.filter(|_| prune_at <= now) {
            match prune_activity(catalog, holder, kept).await {
                Ok(()) => prune_at = now + PRUNE_INTERVAL,
                Err(error) => {
                    tracing::warn!(%error, "old activity cannot be forgotten; trying again");
                }
            }
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// Prunes the activity log in pieces, as long as the lease is held and entries are too old.
async fn prune_activity(
    catalog: &Catalog,
    holder: Uuid,
    kept: Duration,
) -> Result<(), ChangeError> {
    let mut pruned = 0;
    while catalog
        .hold_lease(CLEANUP_LEASE, holder, LEASE_LIFETIME)
        .await?
    {
        let entries = catalog.prune_activity(kept).await?;
        if entries == 0 {
            break;
        }
        pruned += entries;
        tokio::time::sleep(PAUSE).await;
    }
    if pruned > 0 {
        let days = kept.as_secs() / 86_400;
        tracing::info!(
            entries = pruned,
            days,
            "deleted entries of the activity log that are older than activity_log_kept_days"
        );
    }
    Ok(())
}

/// Deletes leftovers in pieces, as long as the lease is held and rows are left.
async fn delete(catalog: &Catalog, holder: Uuid) -> Result<(), ChangeError> {
    // A check reads only: the lease, which is a write, is taken only where something is left.
    while catalog.has_leftovers().await? {
        let is_held = catalog.hold_lease(CLEANUP_LEASE, holder, LEASE_LIFETIME);
        if !is_held.await? {
            return Ok(());
        }
        catalog.delete_leftovers().await?;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
