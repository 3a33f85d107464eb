//! Vendor-specific part of a warehouse, and what all vendors' parts share.

use super::api::Api;
use crate::destination::table::run_key;
use crate::destination::{Delivery, TestStep};
use crate::error::ExportError;
use crate::window::RunScope;
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Time limit for dropping a staging table.
const DROP_TIMEOUT: Duration = Duration::from_secs(60);

/// Vendor-specific part of a warehouse.
#[async_trait]
pub(crate) trait Service: Send + Sync {
    /// HTTP client of the service.
    fn api(&self) -> &Api;

    /// Begins to deliver a run.
    async fn begin(self: Arc<Self>, run: &RunScope) -> Result<Box<dyn Delivery>, ExportError>;

    /// Makes one of the [`STEPS`](super::steps::STEPS) that follow [`TestStep::Reach`], in a test
    /// of this id.
    async fn test(self: Arc<Self>, step: TestStep, test_id: Uuid) -> Result<(), ExportError>;
}

/// Name of the staging table of a window.
pub(crate) fn stage_name(table: &str, run: &RunScope) -> String {
    let digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, run_key(run).as_bytes());
    format!("{table}_millrace_{}", digest.simple())
}

/// Drops the staging table of a delivery that has ended, as far as that can be done in time. The
/// next try of the window replaces one that stays; after the last try its rows stay, so the log
/// names it.
pub(crate) async fn drop_stage<T>(
    stage: &str,
    dropping: impl Future<Output = Result<T, ExportError>>,
) {
    match tokio::time::timeout(DROP_TIMEOUT, dropping).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            tracing::warn!(stage, %error, "a staging table in a warehouse may stay");
        }
        Err(_) => tracing::warn!(
            stage,
            "a staging table in a warehouse was not dropped in time"
        ),
    }
}

/// Name of the table that a test creates, and drops though it could not create it: with the test's
/// id, as no table of the customer has it.
pub(crate) fn scratch_name(table: &str, test_id: Uuid) -> String {
    format!("{table}_millrace_test_{}", test_id.simple())
}

/// Error for a test's row that cannot be read back.
pub(crate) fn unread() -> ExportError {
    ExportError::permanent("What was written cannot be read back.")
}
