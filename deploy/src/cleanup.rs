//! Background deletion of rows of deleted projects and organizations, of withdrawn plugins in other
//! organizations, and of rows that are kept for a time only. A step that fails holds up no other.
//!
//! Every process with the organization API takes part; the one that holds the lease deletes. All
//! its state is in the catalog, so another process goes on wherever it was killed.

use millrace_catalog::leases::CLEANUP_LEASE;
use millrace_catalog::{Catalog, ChangeError, Cleanup};
use millrace_organizations::IdempotencyKeys;
use millrace_rows::RareLog;
use std::convert::Infallible;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
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
/// Pause until a prune is repeated of which a step failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// Lifetime of the lease: a silent process loses it. A transaction takes far less.
const LEASE_LIFETIME: Duration = Duration::from_secs(10);
/// Longest wait for the release of the lease; it lapses as soon.
const RELEASE_MAX: Duration = LEASE_LIFETIME;
/// Longest wait for one step: the lease has lapsed long before, and another process goes on.
const STEP_MAX: Duration = Duration::from_secs(300);

/// Deletes leftovers and prunes periodically until `stopped`, and then releases the lease; returns
/// never. Entries of the activity log are kept for ever without `activity_kept`. Neither waits for
/// the other: a first prune may take hours.
pub async fn run(
    catalog: &Catalog,
    activity_kept: Option<Duration>,
    stopped: &CancellationToken,
) -> Infallible {
    let holder = Uuid::new_v4();
    let working = async {
        tokio::select! {
            never = delete_periodically(catalog, holder) => never,
            never = prune_periodically(catalog, holder, activity_kept) => never,
        }
    };
    if let Some(never) = stopped.run_until_cancelled(working).await {
        match never {}
    }
    let released = timeout(RELEASE_MAX, catalog.release_lease(CLEANUP_LEASE, holder)).await;
    if !matches!(released, Ok(Ok(()))) {
        tracing::warn!("the lease of the cleanup was not given back; it lapses");
    }
    std::future::pending().await
}

async fn delete_periodically(catalog: &Catalog, holder: Uuid) -> Infallible {
    let failures = RareLog::default();
    loop {
        match delete(catalog, holder).await {
            Ok(()) => {
                failures.clear();
            }
            Err(error) if failures.is_due(&error.to_string(), Instant::now()) => {
                tracing::warn!(%error, "rows of deleted objects cannot be deleted; trying again");
            }
            Err(_) => {}
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

async fn prune_periodically(
    catalog: &Catalog,
    holder: Uuid,
    activity_kept: Option<Duration>,
) -> Infallible {
    // Not at once: after an upgrade the operator may want to keep what is older than the default.
    let (mut pause, failures) = (PRUNE_INTERVAL, RareLog::default());
    loop {
        tokio::time::sleep(pause).await;
        let failed = prune(catalog, holder, activity_kept, &failures).await;
        if failed.is_empty() {
            failures.clear();
            pause = PRUNE_INTERVAL;
            continue;
        }
        pause = RETRY_INTERVAL;
        let steps = failed.join(", ");
        if failures.is_due(&steps, Instant::now()) {
            tracing::warn!(
                steps,
                retry_seconds = RETRY_INTERVAL.as_secs(),
                "the hourly cleanup is not complete; trying again"
            );
        }
    }
}

/// Prunes all that is kept for a time only, and marks plugins whose withdrawal left no mark.
/// Returns the steps that failed, each of which is in the log; the others are done all the same.
async fn prune(
    catalog: &Catalog,
    holder: Uuid,
    activity_kept: Option<Duration>,
    failures: &RareLog,
) -> Vec<&'static str> {
    let mut steps = Vec::new();
    if let Some(kept) = activity_kept {
        steps.push(("activity log", prune_activity(catalog, holder, kept).await));
    }
    let done = in_pieces(catalog, holder, || {
        Cleanup::new(catalog).mark_withdrawn_plugins()
    })
    .await;
    steps.push(("withdrawn plugins", done.map(drop)));
    let done = in_pieces(catalog, holder, || {
        IdempotencyKeys::new(catalog).prune_responses()
    })
    .await;
    steps.push(("stored responses", done.map(drop)));
    let done = in_pieces(catalog, holder, || {
        Cleanup::new(catalog).prune_keys(PEOPLE_KEPT)
    })
    .await;
    steps.push(("ended keys", done.map(drop)));
    let done = in_pieces(catalog, holder, || Cleanup::new(catalog).prune_sessions()).await;
    steps.push(("ended sessions", done.map(drop)));
    steps.push(("unused users", prune_users(catalog, holder).await));
    let failed = steps.into_iter().filter_map(|(step, done)| {
        let error = done.err()?;
        if failures.is_due(&format!("{step}: {error}"), Instant::now()) {
            tracing::warn!(step, %error, "a step of the hourly cleanup failed");
        }
        Some(step)
    });
    failed.collect()
}

/// Looks at all users, piece by piece, as long as the lease is held.
async fn note_unused_users(catalog: &Catalog, holder: Uuid) -> Result<(), ChangeError> {
    let mut after = 0;
    while is_leader(catalog, holder).await? {
        match in_time(Cleanup::new(catalog).note_unused_users(after)).await? {
            Some(last) => after = last,
            None => break,
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Deletes users whose time is over, after a pass has looked who has something again.
async fn prune_users(catalog: &Catalog, holder: Uuid) -> Result<(), ChangeError> {
    note_unused_users(catalog, holder).await?;
    in_pieces(catalog, holder, || {
        Cleanup::new(catalog).prune_users(PEOPLE_KEPT)
    })
    .await?;
    Ok(())
}

async fn prune_activity(
    catalog: &Catalog,
    holder: Uuid,
    kept: Duration,
) -> Result<(), ChangeError> {
    let entries = in_pieces(catalog, holder, || {
        Cleanup::new(catalog).prune_activity(kept)
    })
    .await?;
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
    while in_time(Cleanup::new(catalog).has_leftovers()).await? {
        if !is_leader(catalog, holder).await? {
            return Ok(());
        }
        in_time(Cleanup::new(catalog).delete_leftovers()).await?;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_catalog::testing::{TestDatabase, random_uuid};

    #[tokio::test]
    async fn a_step_that_fails_keeps_no_other_from_being_done() {
        let database = TestDatabase::sqlite();
        let catalog = Catalog::open(database.url()).await.unwrap();
        let idle = format!(
            "INSERT INTO users (uuid, distinct_id, email, first_name, last_name, is_active, \
             created_at, updated_at) VALUES ({}, 'x', 'x@example.com', '', '', true, 1, 1)",
            random_uuid(&database)
        );
        let away = "ALTER TABLE idempotency_keys RENAME TO away";
        for statement in [&*idle, away, "ALTER TABLE withdrawn_plugins RENAME TO gone"] {
            database.execute(statement).await.unwrap();
        }
        let failed = prune(
            &catalog,
            Uuid::new_v4(),
            Some(PEOPLE_KEPT),
            &RareLog::default(),
        )
        .await;
        assert_eq!(failed, ["withdrawn plugins", "stored responses"]);
        let noted = "SELECT CAST(COUNT(*) AS TEXT) FROM unused_users";
        assert_eq!(database.first_column(noted).await.unwrap(), ["1"]);
    }

    #[tokio::test]
    async fn a_cleanup_that_is_stopped_releases_its_lease() {
        let database = TestDatabase::sqlite();
        let catalog = Catalog::open(database.url()).await.unwrap();
        let left = "INSERT INTO deleted_projects (team_id) VALUES (4711)";
        database.execute(left).await.unwrap();
        let stop = CancellationToken::new();
        let is_held = async || {
            let lapses_at = "SELECT CAST(lapses_at AS TEXT) FROM leases WHERE name = 'cleanup'";
            database.first_column(lapses_at).await.unwrap() != ["0"]
        };
        let stopping = async {
            while !is_held().await {
                tokio::time::sleep(PAUSE).await;
            }
            stop.cancel();
            while is_held().await {
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::select! {
            never = run(&catalog, None, &stop) => match never {},
            stopped = timeout(Duration::from_secs(60), stopping) => {
                stopped.expect("the lease is not released");
            }
        }
    }
}
