//! Updates in ClickHouse that were applied long ago.
//!
//! They are read once. But a catalog that is put back to an older state applies them again from
//! there: so they are kept for as long as backups of it are.

use crate::worker::Failure;
use millrace_catalog::Catalog;
use millrace_clickhouse::ClickHouse;
use millrace_rows::{Micros, Month};
use std::time::Duration;

/// How often it is looked whether a month may go.
pub(crate) const EVERY: Duration = Duration::from_secs(3_600);

/// Drops the months of which every update was applied and copied, and arrived so long before the
/// last one that was; answers them. Nothing arrives in them any more.
pub(crate) async fn forget(
    catalog: &Catalog,
    clickhouse: &ClickHouse,
    kept: Duration,
) -> Result<Vec<Month>, Failure> {
    let Some(passed) = catalog.persons_watermark().await? else {
        return Ok(Vec::new());
    };
    let kept = i64::try_from(kept.as_micros()).unwrap_or(i64::MAX);
    let needed_from = Month::of(Micros(passed.0.saturating_sub(kept)));
    let months = clickhouse.forget_person_updates(needed_from).await?;
    for month in &months {
        tracing::info!(%month, "what events said of persons was applied, and is forgotten");
    }
    Ok(months)
}
