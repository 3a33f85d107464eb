//! Feed: what viewers call.

use crate::filter::LiveFilter;
use crate::message::LiveMessage;
use millrace_rows::ProjectId;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Longest wait for the hub, which does not run before ingestion does.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Wish to watch a project.
#[derive(Clone, Debug)]
pub struct WatchRequest {
    /// The project.
    pub project_id: ProjectId,
    /// Events that are wanted.
    pub filter: LiveFilter,
    /// True if addresses of clients may be shown.
    pub shows_ip: bool,
    /// Id of the last event that was seen before; later ones that are still there are shown again.
    pub seen: Option<String>,
}

/// Reason why a project cannot be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchRefused {
    /// The node has as many viewers as it may have.
    #[error("too many people watch")]
    Full,
    /// The project has as many viewers as it may have.
    #[error("too many people watch this project")]
    ProjectFull,
    /// Ingestion does not run.
    #[error("there is no live stream")]
    Unavailable,
}

/// Wish with the place for its answer.
#[derive(Debug)]
pub struct Watch {
    pub request: WatchRequest,
    pub reply: oneshot::Sender<Result<mpsc::Receiver<LiveMessage>, WatchRefused>>,
}

/// Feed of a live stream. Clones share it; once all of them are dropped, the hub ends.
#[derive(Clone, Debug)]
pub struct LiveFeed(mpsc::Sender<Watch>);

// === impl LiveFeed ===

impl LiveFeed {
    pub(crate) const fn new(watches: mpsc::Sender<Watch>) -> Self {
        Self(watches)
    }

    /// Begins to watch a project. Whoever drops the messages watches no more.
    ///
    /// # Errors
    /// When there are too many viewers, or ingestion does not run.
    pub async fn watch(
        &self,
        request: WatchRequest,
    ) -> Result<mpsc::Receiver<LiveMessage>, WatchRefused> {
        let (reply, answer) = oneshot::channel();
        let asked = async {
            self.0.send(Watch { request, reply }).await.ok()?;
            answer.await.ok()
        };
        let answered = timeout(WAIT_MAX, asked).await;
        answered
            .ok()
            .flatten()
            .unwrap_or(Err(WatchRefused::Unavailable))
    }
}
