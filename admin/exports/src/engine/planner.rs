//! Plans runs of windows that are due.

use super::panics::Panicked;
use super::state::Inner;
use crate::error::ExportError;
use crate::rows::WindowSearchError;
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
    /// A search for the windows of a backfill reached a limit; the message is for the customer.
    #[error("{0}")]
    SearchLimit(String),
    /// Planning panicked; the message is for the customer.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl From<WindowSearchError> for PlanError {
    fn from(error: WindowSearchError) -> Self {
        match error {
            WindowSearchError::Rows(error) => Self::Rows(error),
            limit @ (WindowSearchError::TooLong | WindowSearchError::TooLarge) => {
                Self::SearchLimit(limit.to_string())
            }
        }
    }
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
