//! Counts events by project, time, name and SDK, and rejected events by code, from the rows that
//! all nodes have shipped.
//!
//! Every process with the organization API takes part; the one that holds the lease counts. All its
//! state is in ClickHouse, so another process goes on wherever it was killed. A time is counted
//! once every node's watermark has passed it: no row of it is still to come.
//!
//! | Module | Holds |
//! |---|---|
//! | `plan` | times that are counted next |
//! | `rates` | rates of the projects with most events, for the page of metrics |
//! | `store` | sums as the API's trait asks for them |

mod plan;
mod rates;
mod store;

pub use store::StatsStore;

use crate::config::Config;
use crate::connect;
use anyhow::Context;
use millrace_catalog::leases::STATS_LEASE;
use millrace_catalog::{Catalog, Nodes};
use millrace_clickhouse::{
    ClickHouse, DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS, QueryError, StatsKind, StatsProgress,
};
use millrace_rows::{Clock, RareLog, SystemClock};
use plan::{Chunk, Pace, is_too_much};
use rates::PublishedRates;
use std::convert::Infallible;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Pause between two looks whether a minute is over.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Lifetime of the lease: longer than the statements of a chunk.
const LEASE_LIFETIME: Duration = Duration::from_secs(300);
/// Longest wait for the release of the lease; it lapses later.
const RELEASE_MAX: Duration = Duration::from_secs(10);
/// Time in seconds behind the watermark up to which rejected events are counted: they have the time
/// at which their request began, and its body may take ten minutes.
const REJECTED_LAG_SECONDS: i64 = 900;
/// Time of failures without a line in the log: at a start, and while ClickHouse is started again,
/// others say so.
const QUIET: Duration = Duration::from_secs(300);
const MICROS_PER_SECOND: i64 = 1_000_000;

/// Counts periodically until `stopped`, and then releases the lease; returns never.
pub async fn run(config: &Config, catalog: &Catalog, stopped: &CancellationToken) -> Infallible {
    let holder = Uuid::new_v4();
    let counting = count_periodically(config, catalog, holder);
    if let Some(never) = stopped.run_until_cancelled(counting).await {
        match never {}
    }
    let released = timeout(RELEASE_MAX, catalog.release_lease(STATS_LEASE, holder)).await;
    if !matches!(released, Ok(Ok(()))) {
        tracing::warn!("the lease of counting events was not given back; it lapses");
    }
    std::future::pending().await
}

async fn count_periodically(config: &Config, catalog: &Catalog, holder: Uuid) -> Infallible {
    let (failures, mut pace) = (RareLog::default(), Pace::default());
    let (mut failing_since, mut rates) = (None, PublishedRates::default());
    loop {
        sleep(LOOK_EVERY).await;
        let counted = count(config, catalog, holder, &mut pace).await;
        let progress = counted.as_ref().ok().copied().flatten();
        rates.update(config, progress, now_seconds()).await;
        let Err(error) = counted else {
            failing_since = None;
            failures.clear();
            continue;
        };
        let since = *failing_since.get_or_insert_with(Instant::now);
        let error = format!("{error:#}");
        if since.elapsed() > QUIET && failures.is_due(&error, Instant::now()) {
            tracing::warn!(error, "events are not counted; trying again until they are");
        }
    }
}

/// Counts what is complete, if this process has the lease or gets it, and returns how far events
/// are counted; `None` if they are counted by another process, or not yet.
async fn count(
    config: &Config,
    catalog: &Catalog,
    holder: Uuid,
    pace: &mut Pace,
) -> anyhow::Result<Option<StatsProgress>> {
    let Some(watermark) = Nodes::new(catalog).exports_watermark().await? else {
        return Ok(None);
    };
    if !is_leader(catalog, holder).await? {
        return Ok(None);
    }
    let sealed = watermark.0.div_euclid(MICROS_PER_SECOND);
    let clickhouse = connect::clickhouse(config)?;
    let progress = clickhouse.stats_progress().await;
    let Some(mut progress) = progress.context("cannot read how far events are counted")? else {
        // Earlier events are not counted: merges have folded what was sent twice.
        let begun = StatsProgress {
            since: sealed,
            accepted: sealed,
            rejected: sealed,
        };
        clickhouse.begin_stats(&begun).await?;
        return Ok(None);
    };
    for kind in StatsKind::ALL {
        let lag = match kind {
            StatsKind::Accepted => 0,
            StatsKind::Rejected => REJECTED_LAG_SECONDS,
        };
        let mut counted = progress.of(kind);
        while let Some(chunk) = pace.next(counted, sealed - lag, now_seconds()) {
            if !is_leader(catalog, holder).await? {
                return Ok(None);
            }
            match count_chunk(&clickhouse, kind, &chunk, *pace).await {
                Ok(()) => pace.succeeded(),
                Err(error) => {
                    if is_too_much(&error) {
                        pace.was_too_much();
                    }
                    return Err(error).context("cannot count events");
                }
            }
            counted = chunk.seconds.end;
        }
        match kind {
            StatsKind::Accepted => progress.accepted = counted,
            StatsKind::Rejected => progress.rejected = counted,
        }
    }
    Ok(Some(progress))
}

/// Counts a chunk, sums the hour and the day that it completes, and records that it is counted.
async fn count_chunk(
    clickhouse: &ClickHouse,
    kind: StatsKind,
    chunk: &Chunk,
    pace: Pace,
) -> Result<(), QueryError> {
    let (seconds, step) = (&chunk.seconds, chunk.step_seconds);
    let now = || SystemClock.now();
    clickhouse
        .count_stats(kind, seconds, step, pace.detail(), now())
        .await?;
    if let Some(hour) = chunk.hour_to_sum() {
        let steps = (MINUTE_SECONDS, HOUR_SECONDS);
        clickhouse.sum_stats(kind, &hour, steps, now()).await?;
    }
    if let Some(day) = chunk.day_to_sum() {
        let steps = (HOUR_SECONDS, DAY_SECONDS);
        clickhouse.sum_stats(kind, &day, steps, now()).await?;
    }
    clickhouse.advance_stats(kind, chunk.seconds.end).await
}

/// Takes the lease, or extends it for the next chunk.
async fn is_leader(catalog: &Catalog, holder: Uuid) -> anyhow::Result<bool> {
    let held = catalog.hold_lease(STATS_LEASE, holder, LEASE_LIFETIME);
    Ok(held.await?)
}

fn now_seconds() -> i64 {
    SystemClock.now().0.div_euclid(MICROS_PER_SECOND)
}
