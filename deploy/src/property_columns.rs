//! Property columns: makes them in ClickHouse as the catalog has them, fills those of past rows,
//! and tells the shippers of this process which there are.
//!
//! Every process with the API takes part; the one that holds the lease makes the columns. A column
//! is marked in the catalog once all hosts have it, and shippers fill marked ones only. Either may
//! be late: ClickHouse computes what does not come, and a block with a column that is gone is sent
//! as rows.

use crate::config::Config;
use crate::connect;
use crate::project_access::EMBEDDED_VIEWS;
use millrace_catalog::leases::COLUMNS_LEASE;
use millrace_catalog::{Catalog, PropertyColumnRecord};
use millrace_clickhouse::{ClickHouse, PastRows, QueryError, QueryErrorKind};
use millrace_organizations::PropertyColumns;
use millrace_pipeline::ship::FilledColumns;
use millrace_rows::{PropertyColumn, RareLog};
use std::convert::Infallible;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Pause between two looks at the catalog.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Time after which everything is compared anew though the catalog has not changed: ClickHouse may
/// have been restored, and a shard added. Shippers fill columns again that ClickHouse refused.
const ANEW_EVERY: Duration = Duration::from_secs(60);
/// Pause between two looks at past rows.
const PAST_EVERY: Duration = Duration::from_secs(10);
/// Lifetime of the lease: a silent process loses it.
const LEASE_LIFETIME: Duration = Duration::from_secs(180);
/// Time of failures without a line in the log: at a start there are no credentials yet.
const QUIET: Duration = Duration::from_secs(60);
/// Longest wait for the catalog, and for the release of the lease.
const CATALOG_MAX: Duration = Duration::from_secs(20);

/// State of the columns, as this process knows it.
#[derive(Default)]
struct Synced {
    /// Version of the catalog that was applied, and the time.
    version: Option<(i64, Instant)>,
    /// True if there are columns.
    has_columns: bool,
    /// Time of the last look at past rows.
    past: Option<Instant>,
}

/// Property columns that the catalog has marked, from now on as they change.
pub fn followed(catalog: &Catalog) -> FilledColumns {
    let filled = FilledColumns::default();
    // On the catalog's runtime, because its connections live there.
    let following = follow(catalog.clone(), filled.clone());
    catalog.runtime().spawn(following);
    filled
}

async fn follow(catalog: Catalog, filled: FilledColumns) -> Infallible {
    let mut seen: Option<(i64, Instant)> = None;
    loop {
        let followed = timeout(CATALOG_MAX, async {
            // Read first: a change beside is seen by the next look.
            let version = catalog.keys_version().await?;
            if seen.is_some_and(|seen| is_current(seen, version)) {
                return Ok(());
            }
            let columns = PropertyColumns::new(&catalog).list_all().await?;
            filled.set(marked(&columns));
            seen = Some((version, Instant::now()));
            anyhow::Ok(())
        });
        // Others say that the catalog does not answer; the columns stay as they were.
        let _ = followed.await;
        sleep(LOOK_EVERY).await;
    }
}

/// Makes and fills columns until `stopped`, and then releases the lease; returns never.
pub async fn run(config: &Config, catalog: &Catalog, stopped: &CancellationToken) -> Infallible {
    let holder = Uuid::new_v4();
    let working = make_periodically(config, catalog, holder);
    if let Some(never) = stopped.run_until_cancelled(working).await {
        match never {}
    }
    release(catalog, holder).await;
    std::future::pending().await
}

async fn make_periodically(config: &Config, catalog: &Catalog, holder: Uuid) -> Infallible {
    let (mut synced, failures) = (Synced::default(), RareLog::default());
    let mut failing_since = None;
    loop {
        match make(config, catalog, holder, &mut synced).await {
            Ok(()) => {
                failing_since = None;
                failures.clear();
            }
            // The engine comes up, or its tables are being made, which others report.
            Err(error) if is_not_there(&error) => {}
            Err(error) => {
                let since = *failing_since.get_or_insert_with(Instant::now);
                let error = format!("{error:#}");
                if since.elapsed() > QUIET && failures.is_due(&error, Instant::now()) {
                    tracing::warn!(
                        error,
                        "property columns are not in ClickHouse as they should be; trying again"
                    );
                }
            }
        }
        sleep(LOOK_EVERY).await;
    }
}

fn is_not_there(error: &anyhow::Error) -> bool {
    let asked = error.downcast_ref::<QueryError>();
    asked.is_some_and(|error| {
        error.kind == QueryErrorKind::NoConnection || error.schema_is_missing()
    })
}

/// Returns true if what was applied at a time is the version that the catalog has now.
fn is_current((known, since): (i64, Instant), version: i64) -> bool {
    known == version && since.elapsed() < ANEW_EVERY
}

/// Columns that ClickHouse has, by their marks.
fn marked(rows: &[PropertyColumnRecord]) -> Vec<PropertyColumn> {
    let marked = rows.iter().filter(|row| row.added_at.is_some());
    marked.map(PropertyColumn::from).collect()
}

/// Compares ClickHouse with the catalog where that is due, and takes a step with past rows.
async fn make(
    config: &Config,
    catalog: &Catalog,
    holder: Uuid,
    synced: &mut Synced,
) -> anyhow::Result<()> {
    // Read first: a change beside is seen by the next look.
    let version = timeout(CATALOG_MAX, catalog.keys_version()).await??;
    let is_known = synced
        .version
        .is_some_and(|applied| match synced.has_columns {
            true => is_current(applied, version),
            // Nobody asked for a column, so none is looked for.
            false => applied.0 == version,
        });
    let is_past_due = synced.past.is_none_or(|past| past.elapsed() >= PAST_EVERY);
    if is_known && !(synced.has_columns && is_past_due) {
        return Ok(());
    }
    let settings = connect::clickhouse_settings(config)?;
    let held = catalog.hold_lease(COLUMNS_LEASE, holder, LEASE_LIFETIME);
    if !timeout(CATALOG_MAX, held).await?? {
        return Ok(());
    }
    let clickhouse = ClickHouse::new(&settings);
    let done = async {
        if !is_known {
            synced.has_columns = sync(catalog, &clickhouse).await?;
            synced.version = Some((version, Instant::now()));
        }
        if synced.has_columns {
            synced.past = Some(Instant::now());
            fill(&clickhouse).await?;
        }
        Ok(())
    };
    let done = done.await;
    release(catalog, holder).await;
    done
}

/// Makes the columns that the catalog has, and marks them; returns true if there are any.
async fn sync(catalog: &Catalog, clickhouse: &ClickHouse) -> anyhow::Result<bool> {
    let columns = PropertyColumns::new(catalog);
    let rows = timeout(CATALOG_MAX, columns.list_all()).await??;
    let wanted: Vec<PropertyColumn> = rows.iter().map(PropertyColumn::from).collect();
    if clickhouse
        .sync_property_columns(&wanted, &EMBEDDED_VIEWS)
        .await?
    {
        tracing::info!(
            columns = wanted.len(),
            "property columns of events were changed"
        );
    }
    let made = rows.iter().filter(|row| row.added_at.is_none());
    let made: Vec<i64> = made.map(|row| row.id).collect();
    if !made.is_empty() {
        timeout(CATALOG_MAX, columns.mark(&made, true)).await??;
    }
    Ok(!rows.is_empty())
}

/// Takes a step with past rows.
async fn fill(clickhouse: &ClickHouse) -> anyhow::Result<()> {
    match clickhouse.fill_past_rows().await? {
        PastRows::Filled => {}
        PastRows::Begun(month) => {
            tracing::info!(
                month = month.0,
                "property columns of a past month are being filled"
            );
        }
        PastRows::Busy { failure } if failure.is_empty() => {}
        PastRows::Busy { failure } => {
            anyhow::bail!("a part of events cannot be rewritten: {failure}");
        }
    }
    Ok(())
}

/// Releases the lease, so that nobody has to wait until it lapses.
async fn release(catalog: &Catalog, holder: Uuid) {
    let released = timeout(CATALOG_MAX, catalog.release_lease(COLUMNS_LEASE, holder)).await;
    if !matches!(released, Ok(Ok(()))) {
        tracing::debug!("the lease of property columns was not given back; it lapses");
    }
}
