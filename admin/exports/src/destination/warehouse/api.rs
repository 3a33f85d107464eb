//! HTTP calls with JSON answers.

use crate::destination::calls::{
    FailedTry, RetryPolicy, is_passing, retried, retry_after, unanswered,
};
use crate::error::ExportError;
use millrace_catalog::bounded_json::{self, JsonError};
use reqwest::header::HeaderMap;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde_json::Value;
use std::fmt::Display;

/// Bytes of an answer that are read at most: results are a single number.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Values of an answer that are read at most: tables have at most 10 000 columns, of some four
/// values each.
const ANSWER_VALUES_MAX: usize = 50_000;

/// HTTP client of a service.
pub(crate) struct Api {
    client: Client,
    /// Base URL of the service; paths are appended to it.
    pub(crate) base: Url,
    pub(crate) retry_policy: RetryPolicy,
    /// Name of the service in sentences.
    product: &'static str,
    passing_reason: PassingReason,
}

/// Finds the service's reason for an error that passes, where the status does not show it.
type PassingReason = fn(&ApiResponse) -> Option<&'static str>;

/// Answer of a service, of any status for which a retry does not help.
#[derive(Clone, Debug)]
pub(crate) struct ApiResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// JSON body; null if it is no JSON.
    pub(crate) body: Value,
}

impl ApiResponse {
    /// Text in the body.
    pub(crate) fn text(&self, pointer: &str) -> Option<&str> {
        self.body.pointer(pointer).and_then(Value::as_str)
    }
}

impl Api {
    pub(crate) fn new(
        client: Client,
        base: Url,
        retry_policy: RetryPolicy,
        product: &'static str,
    ) -> Self {
        Self {
            client,
            base,
            retry_policy,
            product,
            passing_reason: |_| None,
        }
    }

    /// Retries requests whose answers have a reason that passes, too.
    pub(crate) fn with_passing_reason(self, passing_reason: PassingReason) -> Self {
        Self {
            passing_reason,
            ..self
        }
    }

    /// URL of a path.
    pub(crate) fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(path);
        url
    }

    /// Sends a request until it is answered. The service may carry it out more than once.
    pub(crate) async fn call(
        &self,
        make: impl Fn(&Client) -> RequestBuilder,
    ) -> Result<ApiResponse, ExportError> {
        retried(&self.retry_policy, || self.once(make(&self.client))).await
    }

    async fn once(&self, request: RequestBuilder) -> Result<ApiResponse, FailedTry> {
        let sent = request.timeout(self.retry_policy.timeout).send().await;
        let answer = sent.map_err(|error| unanswered(&error))?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        if is_passing(status) {
            return Err(FailedTry {
                error: self.unavailable(&status),
                retry_after: retry_after(&headers),
            });
        }
        let body = read(answer).await?;
        let answer = ApiResponse {
            status,
            headers,
            body,
        };
        match (self.passing_reason)(&answer) {
            Some(reason) => Err(FailedTry {
                error: self.unavailable(&reason),
                retry_after: retry_after(&answer.headers),
            }),
            None => Ok(answer),
        }
    }

    /// Waits before a service is polled again: longer with each poll.
    pub(crate) async fn pause(&self, asked: u32) {
        let delay = self.retry_policy.delay_min.saturating_mul(asked.min(10));
        tokio::time::sleep(delay.min(self.retry_policy.delay_max)).await;
    }

    fn unavailable(&self, why: &dyn Display) -> ExportError {
        ExportError::retryable(format!("{} cannot serve us now ({why}).", self.product))
    }

    pub(crate) fn timed_out(&self) -> ExportError {
        ExportError::retryable(format!("{} took too long.", self.product))
    }

    /// Error for an answer that the service's documents do not describe.
    pub(crate) fn unexpected(&self, answer: &ApiResponse) -> ExportError {
        let (product, status) = (self.product, answer.status);
        ExportError::retryable(format!(
            "{product} sent an answer that cannot be read ({status})."
        ))
    }

    /// Error for a database or schema that does not exist.
    pub(crate) fn no_schema(&self) -> ExportError {
        let product = self.product;
        ExportError::permanent(format!("{product} has no such database and schema."))
    }

    /// Error for a status that is not about a statement.
    pub(crate) fn refused(&self, answer: &ApiResponse) -> ExportError {
        let (product, status) = (self.product, answer.status);
        match status {
            StatusCode::UNAUTHORIZED => {
                ExportError::permanent(format!("{product} did not accept the credentials."))
            }
            StatusCode::FORBIDDEN => ExportError::permanent(format!(
                "{product} does not grant the rights that the export needs."
            )),
            StatusCode::NOT_FOUND => ExportError::permanent(format!(
                "{product} does not find an object that the export names."
            )),
            status => ExportError::permanent(format!("{product} refused ({status}).")),
        }
    }
}

async fn read(mut answer: Response) -> Result<Value, ExportError> {
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(|error| unanswered(&error))? {
        if body.len() + piece.len() > ANSWER_BYTES_MAX {
            return Err(ExportError::retryable("The server's answer is too long."));
        }
        body.extend_from_slice(&piece);
    }
    match bounded_json::parse(&body, ANSWER_VALUES_MAX) {
        Ok(value) => Ok(value),
        Err(JsonError::Malformed(_)) => Ok(Value::Null),
        Err(JsonError::TooManyValues(_)) => Err(ExportError::retryable(
            "The server's answer is too complex.",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_of(bytes: usize) -> Result<Value, ExportError> {
        let text = format!("\"{}\"", "x".repeat(bytes - 2));
        read(Response::from(http::Response::new(text))).await
    }

    #[tokio::test]
    async fn an_answer_over_the_limit_is_refused() {
        assert!(read_of(ANSWER_BYTES_MAX).await.unwrap().is_string());
        let error = read_of(ANSWER_BYTES_MAX + 1).await.unwrap_err();
        assert!(error.message.contains("too long"), "{error}");
    }

    #[tokio::test]
    async fn an_answer_of_too_many_values_is_refused() {
        let answer = |values: usize| {
            let text = format!("[{}0]", "0,".repeat(values - 2));
            read(Response::from(http::Response::new(text)))
        };
        assert!(answer(ANSWER_VALUES_MAX).await.unwrap().is_array());
        let error = answer(ANSWER_VALUES_MAX + 1).await.unwrap_err();
        assert!(error.message.contains("too complex"), "{error}");
    }
}
