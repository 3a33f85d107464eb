//! Deletes in the background what deleted projects and organizations left in the catalog, and what of
//! the activity log is older than it is kept.
//!
//! Every process with the organization API takes part; the one that holds the lease deletes. All
//! that it knows is in the catalog, so another one goes on wherever it was killed.

use millrace_catalog::leases::CLEANUP_LEASE;
use millrace_catalog::{Catalog, CatalogError, ChangeError};
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// Between two looks whether there is something to delete.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Between two pieces others get at the catalog: SQLite has one writer.
const PAUSE: Duration = Duration::from_millis(100);
/// Between two looks whether entries of the activity log have become too old.
const FORGET_EVERY: Duration = Duration::from_secs(3_600);
/// How long a process that says nothing keeps others from going on. A piece takes far less.
const LAPSE_AFTER: Duration = Duration::from_secs(10);

/// Looks again and again, and deletes what there is. Entries of the activity log are kept for ever
/// without `activity_kept`.
pub async fn run(catalog: &Catalog, activity_kept: Option<Duration>) -> Infallible {
    let holder = Uuid::new_v4();
    let mut forget_at = Instant::now();
    loop {
        if let Err(error) = delete(catalog, holder).await {
            tracing::warn!(%error, "rows of deleted projects cannot be deleted; trying again");
        }
        let now = Instant::now();
        if let Some(kept) = activity_kept.filter(|_| forget_at <= now) {
            match forget_activity(catalog, holder, kept).await {
                Ok(()) => forget_at = now + FORGET_EVERY,
                Err(error) => {
                    tracing::warn!(%error, "old activity cannot be forgotten; trying again");
                }
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Forgets piece by piece, as long as the lease can be held and something is too old.
async fn forget_activity(
    catalog: &Catalog,
    holder: Uuid,
    kept: Duration,
) -> Result<(), ChangeError> {
    while catalog
        .hold_lease(CLEANUP_LEASE, holder, LAPSE_AFTER)
        .await?
    {
        if catalog.forget_activity(kept).await? == 0 {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Deletes piece by piece, as long as the lease can be held and something is left.
async fn delete(catalog: &Catalog, holder: Uuid) -> Result<(), CatalogError> {
    // Only read where nothing is left: nobody writes for the lease every other second.
    while catalog.has_leftovers().await? {
        let is_held = catalog.hold_lease(CLEANUP_LEASE, holder, LAPSE_AFTER);
        if !is_held.await? {
            return Ok(());
        }
        catalog.delete_leftovers().await?;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
