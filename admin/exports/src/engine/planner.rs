//! Plans runs of windows that are due.

use super::panics::Panicked;
use super::state::Inner;
use crate::error::ExportError;
use crate::records::ExportPlanner;
use crate::rows::WindowSearchError;
use millrace_catalog::{CatalogError, ChangeError, Nodes};
use thiserror::Error;

/// Reason that nothing was planned, or deleted.
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
    /// The catalog did not answer in time.
    #[error("the catalog does not answer")]
    NoAnswer,
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

/// Waits for a step, as long as the leader may take for it.
pub(super) async fn in_time<T, E>(
    inner: &Inner,
    step: impl Future<Output = Result<T, E>>,
) -> Result<T, PlanError>
where
    PlanError: From<E>,
{
    let done = tokio::time::timeout(inner.options.step_max(), step).await;
    Ok(done.map_err(|_| PlanError::NoAnswer)??)
}

/// Creates runs of all windows that are due and whose rows are all stored.
pub(super) async fn windows(inner: &Inner) -> Result<(), PlanError> {
    let Some(watermark) = Nodes::new(&inner.catalog).exports_watermark().await? else {
        return Ok(());
    };
    let planned = ExportPlanner::new(&inner.catalog)
        .plan_windows(watermark)
        .await?;
    if planned > 0 {
        tracing::info!(planned, %watermark, "exports are due");
    }
    Ok(())
}
