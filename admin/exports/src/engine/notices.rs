//! Notices to administrators of an organization.

use async_trait::async_trait;
use millrace_catalog::BatchExport;

/// Kind of a notice: a problem that an administrator should look after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A run was given up; later runs follow.
    RunFailed,
    /// The export was paused after too many failed runs.
    Paused,
    /// The export's runs have waited for the server's operator for an hour.
    Waits,
}

/// Sends notices to administrators of an organization.
#[async_trait]
pub trait Notices: Send + Sync {
    /// Sends a notice about an export with its reason, in words for administrators. Failures are
    /// logged.
    async fn tell(&self, notice: Notice, export: &BatchExport, why: &str);
}
