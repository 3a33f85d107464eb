//! Runtime of a task.

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

/// Runtime on the calling thread.
pub(super) fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")
}
