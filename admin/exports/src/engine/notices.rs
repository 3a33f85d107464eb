//! What administrators are told.

use async_trait::async_trait;
use millrace_catalog::BatchExport;

/// Something that somebody should look after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A run was given up; others follow.
    RunFailed,
    /// After too many of them the export was paused.
    Paused,
    /// Its runs have waited for the server's operator for an hour.
    Waits,
}

/// Tells administrators of an organization.
#[async_trait]
pub trait Notices: Send + Sync {
    /// Tells them of an export, and why, in words for them. What cannot be told is logged.
    async fn tell(&self, notice: Notice, export: &BatchExport, why: &str);
}
