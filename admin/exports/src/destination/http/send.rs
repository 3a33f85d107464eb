//! Sends one batch until its outcome is known.

use super::batch::BodyFormat;
use crate::destination::calls::{self, FailedTry, RetryPolicy, is_passing, retried, unanswered};
use crate::error::ExportError;
use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url};

/// Sender of batches to one server.
pub(super) struct Sender {
    client: Client,
    url: Url,
    headers: HeaderMap,
    retry_policy: RetryPolicy,
}

impl Sender {
    pub(super) fn new(
        client: Client,
        url: Url,
        body_format: BodyFormat,
        token: &str,
        retry_policy: RetryPolicy,
    ) -> Result<Self, ExportError> {
        let mut headers = HeaderMap::new();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static(body_format.content_type()),
        );
        let wrong = |_| ExportError::permanent("The token has characters that no header can have.");
        let mut bearer = HeaderValue::from_str(&format!("Bearer {token}")).map_err(wrong)?;
        bearer.set_sensitive(true);
        if body_format == BodyFormat::Lines {
            headers.insert(AUTHORIZATION, bearer);
        }
        Ok(Self {
            client,
            url,
            headers,
            retry_policy,
        })
    }

    /// Sends a batch until the server has taken it.
    ///
    /// # Errors
    /// The server does not take it.
    pub(super) async fn send(&self, body: Bytes, key: &str) -> Result<(), ExportError> {
        retried(&self.retry_policy, || self.post(body.clone(), key)).await
    }

    /// Sends a batch without events once, to check the credentials. Servers that refuse empty
    /// batches pass, too.
    ///
    /// # Errors
    /// The server refuses access.
    pub(super) async fn test(&self, body: Bytes) -> Result<(), ExportError> {
        let status = self.answer(body, None).await?.status();
        match status {
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => Ok(()),
            status if status.is_success() => Ok(()),
            status => Err(refusal(status)),
        }
    }

    async fn post(&self, body: Bytes, key: &str) -> Result<(), FailedTry> {
        let answer = self.answer(body, Some(key)).await?;
        // The batch was taken, even if the body of the answer is cut off.
        if answer.status().is_success() {
            return Ok(());
        }
        Err(FailedTry {
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
        let answer = request
            .timeout(self.retry_policy.timeout)
            .body(body)
            .send()
            .await;
        answer.map_err(|error| unanswered(&error))
    }
}

/// Error for a status. The body of an answer is never repeated: it may contain what we sent.
fn refusal(status: StatusCode) -> ExportError {
    match status {
        // 409: the same key is still in flight, from the try whose answer was not waited for.
        status if is_passing(status) || status == StatusCode::CONFLICT => {
            ExportError::retryable(format!("The server cannot accept events now ({status})."))
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            ExportError::permanent(format!("The server did not accept the token ({status})."))
        }
        status if status.is_redirection() || status == StatusCode::NOT_FOUND => {
            ExportError::permanent(format!(
                "The url does not lead to where events are accepted ({status}); redirects are not \
                 followed."
            ))
        }
        status => ExportError::permanent(format!("The server refused a batch ({status}).")),
    }
}
