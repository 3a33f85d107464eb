//! One batch, tried until it is known to have been taken or not.

use super::batch::Shape;
use crate::destination::calls::{self, Failed, Pace, is_passing, retried, unanswered};
use crate::error::ExportError;
use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url};

/// Sends batches to one server.
pub(super) struct Sender {
    client: Client,
    url: Url,
    headers: HeaderMap,
    pace: Pace,
}

impl Sender {
    pub(super) fn new(
        client: Client,
        url: Url,
        shape: Shape,
        token: &str,
        pace: Pace,
    ) -> Result<Self, ExportError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(shape.content_type()));
        let wrong = |_| ExportError::hopeless("The token has characters that no header can have.");
        let mut bearer = HeaderValue::from_str(&format!("Bearer {token}")).map_err(wrong)?;
        bearer.set_sensitive(true);
        if shape == Shape::Lines {
            headers.insert(AUTHORIZATION, bearer);
        }
        Ok(Self {
            client,
            url,
            headers,
            pace,
        })
    }

    /// Sends a batch until the server has taken it.
    ///
    /// # Errors
    /// It does not.
    pub(super) async fn send(&self, body: Bytes, key: &str) -> Result<(), ExportError> {
        retried(&self.pace, || self.post(body.clone(), key)).await
    }

    /// Sends a batch without events once, to see whether the server lets us in. Some refuse what
    /// is empty, and that is well, too.
    ///
    /// # Errors
    /// It does not.
    pub(super) async fn test(&self, body: Bytes) -> Result<(), ExportError> {
        let status = self.answer(body, None).await?.status();
        match status {
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => Ok(()),
            status if status.is_success() => Ok(()),
            status => Err(refusal(status)),
        }
    }

    async fn post(&self, body: Bytes, key: &str) -> Result<(), Failed> {
        let answer = self.answer(body, Some(key)).await?;
        // What is cut off in the body of its answer was taken, too.
        if answer.status().is_success() {
            return Ok(());
        }
        Err(Failed {
            retry_after: calls::retry_after(answer.headers()),
            error: refusal(answer.status()),
        })
    }

    async fn answer(&self, body: Bytes, key: Option<&str>) -> Result<Response, ExportError> {
        let request = self
            .client
            .post(self.url.clone())
            .headers(self.headers.clone());
        let request = match key {
            Some(key) => request.header("Idempotency-Key", key),
            None => request,
        };
        let answer = request.timeout(self.pace.timeout).body(body).send().await;
        answer.map_err(|error| unanswered(&error))
    }
}

/// What a status says. The body of an answer is never repeated: it may hold what we sent.
fn refusal(status: StatusCode) -> ExportError {
    match status {
        // 409: the same key is in flight still, by the try whose answer was not waited for.
        status if is_passing(status) || status == StatusCode::CONFLICT => {
            ExportError::retry(format!("The server cannot take events now ({status})."))
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            ExportError::hopeless(format!("The server did not accept the token ({status})."))
        }
        status if status.is_redirection() || status == StatusCode::NOT_FOUND => {
            ExportError::hopeless(format!(
                "The url does not lead to where events are taken ({status}); redirects are not \
                 followed."
            ))
        }
        status => ExportError::hopeless(format!("The server refused a batch ({status}).")),
    }
}
