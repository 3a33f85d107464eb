//! State that taps, copies of rows and the hub share.

use crate::watched_projects::WatchedProjects;
use std::sync::atomic::AtomicUsize;

/// State that taps, copies of rows and the hub share.
#[derive(Debug, Default)]
pub struct Shared {
    /// Projects that are watched.
    pub projects: WatchedProjects,
    /// Bytes of all copies of rows.
    pub queued_bytes: AtomicUsize,
}
