//! Vendor-specific part of a warehouse, and what all vendors' parts share.

use super::api::Api;
use crate::destination::{Delivery, TestStep};
use crate::error::ExportError;
use crate::window::RunScope;
use async_trait::async_trait;
use std::sync::Arc;
use uuid::Uuid;

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

/// Name of the table that a test creates, and drops though it could not create it: with the test's
/// id, as no table of the customer has it.
pub(crate) fn scratch_name(table: &str, test_id: Uuid) -> String {
    format!("{table}_millrace_test_{}", test_id.simple())
}

/// Error for a test's row that cannot be read back.
pub(crate) fn unread() -> ExportError {
    ExportError::permanent("The written row cannot be read back.")
}
