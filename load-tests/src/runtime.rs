//! Runtimes of threads that wait for the network.

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

/// Creates a runtime on the calling thread.
///
/// # Errors
/// The system has no descriptors left.
pub fn current_thread_runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")
}
