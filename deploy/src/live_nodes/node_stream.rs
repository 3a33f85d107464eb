//! Stream of another node. When it ends, the node is asked again from the last event on.

use super::lines::MessageLines;
use anyhow::Context;
use millrace_catalog::NodeEndpoint;
use millrace_ingest::live_endpoint::PATH;
use millrace_live::{LiveMessage, RemoteWatch, WatchRequest};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// Pause before a node is asked again.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// Time in which a node has to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest silence of a node, which tells its numbers each second.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// Stream of another node.
pub(super) struct NodeStream {
    pub(super) client: reqwest::Client,
    pub(super) endpoint: NodeEndpoint,
    pub(super) request: WatchRequest,
    /// Takes messages with the name of the node.
    pub(super) messages: mpsc::Sender<(String, LiveMessage)>,
}

impl NodeStream {
    /// Passes messages on until nobody takes them any more.
    pub(super) async fn run(mut self) {
        while !self.messages.is_closed() {
            if let Err(error) = self.read().await {
                let node = &self.endpoint.name;
                tracing::debug!(node, error = format!("{error:#}"), "a node is not watched");
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Passes messages on until the node sends no more.
    async fn read(&mut self) -> anyhow::Result<()> {
        let watch = RemoteWatch::from(self.request.clone());
        let NodeEndpoint { url, token, .. } = &self.endpoint;
        let asked = self
            .client
            .post(format!("{url}{PATH}"))
            .header(AUTHORIZATION, format!("Bearer {token}"))
            .header(CONTENT_TYPE, "application/json")
            .body(serde_json::to_vec(&watch)?)
            .send();
        let response = timeout(ANSWER_TIMEOUT, asked).await;
        let response = response.context("the node does not answer")??;
        let mut response = response.error_for_status()?;
        let mut lines = MessageLines::default();
        loop {
            let piece = timeout(SILENCE_MAX, response.chunk()).await;
            let Some(piece) = piece.context("the node is silent")?? else {
                return Ok(());
            };
            for message in lines.take(&piece)? {
                if let LiveMessage::Event { id, .. } = &message {
                    self.request.seen = Some(id.clone());
                }
                let named = (self.endpoint.name.clone(), message);
                if self.messages.send(named).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}
