//! Background deletion of rows of deleted projects and organizations, of withdrawn plugins in other
//! organizations, and of rows that are kept for a time only.
//!
//! Every process with the organization API takes part; the one that holds the lease deletes. All
//! its state is in the catalog, so another process goes on wherever it was killed.

use millrace_catalog::leases::CLEANUP_LEASE;
use millrace_catalog::{Catalog, ChangeError};
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

/// Pause between two checks for rows to delete.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Pause between two transactions, in which others write: SQLite has one writer.
const PAUSE: Duration = Duration::from_millis(100);
/// Interval of pruning rows that are kept for a time only.
const PRUNE_INTERVAL: Duration = Duration::from_secs(3_600);
/// Time for which a revoked or expired key is kept, and a user without an organization, an invite
/// and a key.
const PEOPLE_KEPT: Duration = Duration::from_secs(90 * 86_400);
/// Lifetime of the lease: a silent process loses it. A transaction takes far less.
const LEASE_LIFETIME: Duration = Duration::from_secs(10);

/// Longest wait for one step: the lease has lapsed long before, and another process goes on.
const STEP_MAX: Duration = Duration::from_secs(300);

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
        if prune_at <= now {
            match prune(catalog, holder, activity_kept).await {
                Ok(()) => prune_at = now + PRUNE_INTERVAL,
                Err(error) => {
                    tracing::warn!(%error, "old rows cannot be deleted; trying again");
                }
            }
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// Prunes all that is kept for a time only.
async fn prune(
    catalog: &Catalog,
    holder: Uuid,
    activity_kept: Option<Duration>,
) -> Result<(), ChangeError> {
    if let Some(kept) = activity_kept {
        prune_activity(catalog, holder, kept).await?;
    }
    in_pieces(catalog, holder, || catalog.prune_responses()).await?;
    in_pieces(catalog, holder, || catalog.prune_keys(PEOPLE_KEPT)).await?;
    note_unused_users(catalog, holder).await?;
    in_pieces(catalog, holder, || catalog.prune_users(PEOPLE_KEPT)).await?;
    Ok(())
}

/// Looks at all users, piece by piece, as long as the lease is held.
async fn note_unused_users(catalog: &Catalog, holder: Uuid) -> Result<(), ChangeError> {
    let mut after = 0;
    while is_leader(catalog, holder).await? {
        match in_time(catalog.note_unused_users(after)).await? {
            Some(last) => after = last,
            None => break,
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn prune_activity(
    catalog: &Catalog,
    holder: Uuid,
    kept: Duration,
) -> Result<(), ChangeError> {
    let entries = in_pieces(catalog, holder, || catalog.prune_activity(kept)).await?;
    if entries > 0 {
        let days = kept.as_secs() / 86_400;
        tracing::info!(
            entries,
            days,
            "deleted entries of the activity log that are older than activity_log_kept_days"
        );
    }
    Ok(())
}

/// Prunes piece by piece, as long as the lease is held and a piece has any rows; returns their
/// number.
async fn in_pieces<F, E>(
    catalog: &Catalog,
    holder: Uuid,
    prune: impl Fn() -> F,
) -> Result<u64, ChangeError>
where
    F: Future<Output = Result<u64, E>>,
    ChangeError: From<E>,
{
    let mut rows = 0;
    while is_leader(catalog, holder).await? {
        match in_time(prune()).await? {
            0 => break,
            piece => rows += piece,
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(rows)
}

/// Takes the lease, or extends it for the next piece.
async fn is_leader(catalog: &Catalog, holder: Uuid) -> Result<bool, ChangeError> {
    in_time(catalog.hold_lease(CLEANUP_LEASE, holder, LEASE_LIFETIME)).await
}

/// Waits for one step, which the catalog may never answer: the rest is tried again.
async fn in_time<T, E>(step: impl Future<Output = Result<T, E>>) -> Result<T, ChangeError>
where
    ChangeError: From<E>,
{
    let silent = |_| ChangeError::Unavailable("the catalog does not answer".to_owned());
    Ok(timeout(STEP_MAX, step).await.map_err(silent)??)
}

/// Deletes leftovers in pieces, as long as the lease is held and rows are left.
async fn delete(catalog: &Catalog, holder: Uuid) -> Result<(), ChangeError> {
    // A check reads only: the lease, which is a write, is taken only where something is left.
    while in_time(catalog.has_leftovers()).await? {
        if !is_leader(catalog, holder).await? {
            return Ok(());
        }
        in_time(catalog.delete_leftovers()).await?;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
