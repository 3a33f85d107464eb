//! Retention of updates in ClickHouse that were applied long ago.
//!
//! Each update is read once. But a catalog that is restored to an older state applies later updates
//! again: so they are kept for as long as backups of the catalog are.

use crate::failure::Failure;
use crate::state::PersonStore;
use millrace_catalog::Catalog;
use millrace_clickhouse::ClickHouse;
use millrace_rows::{Micros, Month};
use std::time::Duration;

/// Interval at which months are checked for whether they may be dropped.
pub(crate) const CHECK_EVERY: Duration = Duration::from_secs(3_600);

/// Drops the months of which every update was applied and copied, and arrived at least `kept`
/// before the watermark of applied updates. Returns the dropped months; nothing arrives in them any
/// more.
pub(crate) async fn drop_expired_months(
    catalog: &Catalog,
    clickhouse: &ClickHouse,
    kept: Duration,
) -> Result<Vec<Month>, Failure> {
    let Some(passed) = PersonStore::new(catalog).watermark().await? else {
        return Ok(Vec::new());
    };
    let kept = i64::try_from(kept.as_micros()).unwrap_or(i64::MAX);
    let needed_from = Month::of(Micros(passed.0.saturating_sub(kept)));
    let months = clickhouse.drop_person_updates(needed_from).await?;
    for month in &months {
        tracing::info!(%month, "old updates of persons were dropped, as all are applied");
    }
    Ok(months)
}
