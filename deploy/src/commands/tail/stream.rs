//! Live stream of the API. When it breaks off, it is asked for again from the last event on.

use super::server_sent::{ServerSent, ServerSentEvents};
use anyhow::{Context, anyhow};
use reqwest::header::{ACCEPT, AUTHORIZATION};
use reqwest::{Response, StatusCode};
use serde::Deserialize;
use std::time::Duration;
use tokio::time::timeout;
use url::Url;

/// Time in which the API has to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest silence of the API, which tells numbers each second.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// Live stream of a project.
pub(super) struct LiveStream {
    client: reqwest::Client,
    url: Url,
    key: String,
    /// Id of the last event.
    seen: Option<String>,
    has_begun: bool,
}

/// Reason why a stream ended.
pub(super) enum StreamEnd {
    /// Nobody takes its messages.
    NobodyReads,
    /// The API refuses it, and would again.
    Refused(anyhow::Error),
    /// The connection broke, or the API has no place for now.
    Broken(anyhow::Error),
}

/// Error of the API.
#[derive(Deserialize)]
struct ErrorBody {
    code: String,
    detail: String,
}

impl LiveStream {
    /// Stream that was not asked for yet.
    pub(super) const fn new(client: reqwest::Client, url: Url, key: String) -> Self {
        Self {
            client,
            url,
            key,
            seen: None,
            has_begun: false,
        }
    }

    /// Returns true if the stream has begun once.
    pub(super) const fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Gives messages to `take` until it returns false, or there are no more.
    pub(super) async fn read(&mut self, take: &mut impl FnMut(&ServerSent) -> bool) -> StreamEnd {
        let response = match self.ask().await {
            Ok(response) => response,
            Err(error) => {
                return StreamEnd::Broken(error.context(format!("cannot reach {}", self.url)));
            }
        };
        let status = response.status();
        if status != StatusCode::OK {
            let error = error_of(response).await;
            let passes = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
            return match passes {
                true => StreamEnd::Broken(error),
                false => StreamEnd::Refused(error),
            };
        }
        self.has_begun = true;
        match self.pass_on(response, take).await {
            Ok(true) => StreamEnd::Broken(anyhow!("the server ended the stream")),
            Ok(false) => StreamEnd::NobodyReads,
            Err(error) => StreamEnd::Broken(error),
        }
    }

    async fn ask(&self) -> anyhow::Result<Response> {
        let mut request = self
            .client
            .get(self.url.clone())
            .header(AUTHORIZATION, format!("Bearer {}", self.key))
            .header(ACCEPT, "text/event-stream");
        if let Some(seen) = &self.seen {
            request = request.header("last-event-id", seen);
        }
        let response = timeout(ANSWER_TIMEOUT, request.send()).await;
        Ok(response.context("the API does not answer")??)
    }

    /// Passes messages on; returns false if nobody takes them any more.
    async fn pass_on(
        &mut self,
        mut response: Response,
        take: &mut impl FnMut(&ServerSent) -> bool,
    ) -> anyhow::Result<bool> {
        let mut events = ServerSentEvents::default();
        loop {
            let piece = timeout(SILENCE_MAX, response.chunk()).await;
            let Some(piece) = piece.context("the API is silent")?? else {
                return Ok(true);
            };
            for event in events.take(&piece)? {
                if !take(&event) {
                    return Ok(false);
                }
                if !event.id.is_empty() {
                    self.seen = Some(event.id);
                }
            }
        }
    }
}

/// Error that the API answers with.
async fn error_of(response: Response) -> anyhow::Error {
    let status = response.status();
    let text = response.text().await.unwrap_or_default();
    match serde_json::from_str::<ErrorBody>(&text) {
        Ok(ErrorBody { code, detail }) => anyhow!("{detail} ({status}, {code})"),
        Err(_) => anyhow!("the API answers {status}"),
    }
}
