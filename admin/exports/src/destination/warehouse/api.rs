//! Calls with JSON answers.

use crate::destination::calls::{Failed, Pace, is_passing, retried, retry_after, unanswered};
use crate::error::ExportError;
use reqwest::header::HeaderMap;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde_json::Value;

/// More of an answer is not read: results here are a number.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Calls a service.
pub(crate) struct Api {
    client: Client,
    /// Where it is; paths are put behind it.
    pub(crate) base: Url,
    pub(crate) pace: Pace,
    /// What it is called in sentences.
    product: &'static str,
}

/// An answer; of any status that does not pass.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Null if it is no JSON.
    pub(crate) body: Value,
}

impl Answer {
    /// A text in the body.
    pub(crate) fn text(&self, pointer: &str) -> Option<&str> {
        self.body.pointer(pointer).and_then(Value::as_str)
    }
}

impl Api {
    pub(crate) fn new(client: Client, base: Url, pace: Pace, product: &'static str) -> Self {
        Self {
            client,
            base,
            pace,
            product,
        }
    }

    /// The URL of a path.
    pub(crate) fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(path);
        url
    }

    /// Sends a request until it is answered. It may be carried out more than once.
    pub(crate) async fn call(
        &self,
        make: impl Fn(&Client) -> RequestBuilder,
    ) -> Result<Answer, ExportError> {
        retried(&self.pace, || self.once(make(&self.client))).await
    }

    async fn once(&self, request: RequestBuilder) -> Result<Answer, Failed> {
        let sent = request.timeout(self.pace.timeout).send().await;
        let answer = sent.map_err(|error| unanswered(&error))?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        if is_passing(status) {
            return Err(Failed {
                error: self.away(status),
                retry_after: retry_after(&headers),
            });
        }
        let body = read(answer).await?;
        Ok(Answer {
            status,
            headers,
            body,
        })
    }

    /// Waits before a service is asked again how far it is: the longer, the longer it takes.
    pub(crate) async fn pause(&self, asked: u32) {
        let delay = self.pace.delay_min.saturating_mul(asked.min(10));
        tokio::time::sleep(delay.min(self.pace.delay_max)).await;
    }

    fn away(&self, status: StatusCode) -> ExportError {
        ExportError::retry(format!("{} cannot serve us now ({status}).", self.product))
    }

    pub(crate) fn late(&self) -> ExportError {
        ExportError::retry(format!("{} took too long.", self.product))
    }

    /// An answer that is none that the service's documents know.
    pub(crate) fn odd(&self, answer: &Answer) -> ExportError {
        let (product, status) = (self.product, answer.status);
        ExportError::retry(format!(
            "{product} answered what is not understood ({status})."
        ))
    }

    /// Nothing is where the statements would be carried out.
    pub(crate) fn no_schema(&self) -> ExportError {
        let product = self.product;
        ExportError::hopeless(format!("{product} has no such database and schema."))
    }

    /// What a status says that is not of a statement.
    pub(crate) fn refused(&self, answer: &Answer) -> ExportError {
        let (product, status) = (self.product, answer.status);
        match status {
            StatusCode::UNAUTHORIZED => {
                ExportError::hopeless(format!("{product} did not accept the credentials."))
            }
            StatusCode::FORBIDDEN => ExportError::hopeless(format!(
                "{product} does not give the rights that are needed."
            )),
            StatusCode::NOT_FOUND => {
                ExportError::hopeless(format!("{product} does not find what the export names."))
            }
            status => ExportError::hopeless(format!("{product} refused ({status}).")),
        }
    }
}

async fn read(mut answer: Response) -> Result<Value, ExportError> {
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(|error| unanswered(&error))? {
        if body.len() + piece.len() > ANSWER_BYTES_MAX {
            return Err(ExportError::retry("The server's answer is too long."));
        }
        body.extend_from_slice(&piece);
    }
    Ok(serde_json::from_slice(&body).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_of(bytes: usize) -> Result<Value, ExportError> {
        let text = format!("\"{}\"", "x".repeat(bytes - 2));
        read(Response::from(http::Response::new(text))).await
    }

    #[tokio::test]
    async fn of_an_answer_no_more_is_kept_than_one_may_have() {
        assert!(read_of(ANSWER_BYTES_MAX).await.unwrap().is_string());
        let error = read_of(ANSWER_BYTES_MAX + 1).await.unwrap_err();
        assert!(error.message.contains("too long"), "{error}");
    }
}
