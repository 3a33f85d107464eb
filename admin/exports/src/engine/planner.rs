//! Plans runs of windows that are due.

use super::state::Inner;
use crate::error::ExportError;
use millrace_catalog::{CatalogError, ChangeError};
use thiserror::Error;

/// Reason that nothing was planned.
#[derive(Debug, Error)]
pub(super) enum PlanError {
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    #[error(transparent)]
    Change(#[from] ChangeError),
    #[error("ClickHouse: {0}")]
    Rows(#[from] ExportError),
}

/// Creates runs of all windows that are due and whose rows are all stored.
pub(super) async fn windows(inner: &Inner) -> Result<(), PlanError> {
    let Some(watermark) = inner.catalog.exports_watermark().await? else {
        return Ok(());
    };
    let planned = inner.catalog.plan_export_windows(watermark).await?;
    if planned > 0 {
        tracing::info!(planned, %watermark, "exports are due");
    }
    Ok(())
}
