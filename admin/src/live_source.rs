//! Source of live streams, as the API needs it of whoever has ingestion.
//!
//! The API may run in a process without ingestion. It checks who asks, counts viewers and passes
//! messages on; the nodes filter and sample, as only they know all events.

use async_trait::async_trait;
use millrace_live::{LiveFeed, LiveMessage, WatchRefused, WatchRequest};
use std::fmt;
use tokio::sync::mpsc;

/// Source of live streams.
#[async_trait]
pub trait LiveSource: fmt::Debug + Send + Sync {
    /// Begins to watch a project. Whoever drops the messages watches no more.
    ///
    /// # Errors
    ///
    /// There are too many viewers, or no ingestion runs.
    async fn watch(
        &self,
        request: WatchRequest,
    ) -> Result<mpsc::Receiver<LiveMessage>, WatchRefused>;
}

#[async_trait]
impl LiveSource for LiveFeed {
    async fn watch(
        &self,
        request: WatchRequest,
    ) -> Result<mpsc::Receiver<LiveMessage>, WatchRefused> {
        Self::watch(self, request).await
    }
}
