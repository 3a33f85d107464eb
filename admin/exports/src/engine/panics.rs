//! Panics of runs and of planning, as mistakes of ours cause them: each ends what panicked and goes
//! no further. It is logged and counted, and is an error like others: tries of a run end.

use super::metrics;
use crate::error::ExportError;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use thiserror::Error;
use uuid::Uuid;

/// A panic of ours, in words for customers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("The server failed because of a bug. Tell the operator: the server's log has the details.")]
pub(super) struct Panicked;

impl From<Panicked> for ExportError {
    fn from(panicked: Panicked) -> Self {
        Self::retryable(panicked.to_string())
    }
}

/// Drives work for an export to its end or its panic.
pub(super) async fn caught<T>(
    export_id: Uuid,
    work: impl Future<Output = T>,
) -> Result<T, Panicked> {
    // Nothing of it is used after a panic.
    let done = AssertUnwindSafe(work).catch_unwind().await;
    done.map_err(|_| {
        metrics::panicked();
        tracing::error!(%export_id, "the work for an export panicked");
        Panicked
    })
}
