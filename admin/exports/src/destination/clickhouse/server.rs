//! Requests to a customer's ClickHouse, and their answers.

use super::failure;
use crate::destination::calls::{FailedTry, RetryPolicy, retried, retry_after, unanswered};
use crate::destination::settings::Settings;
use crate::destination::table::Layout;
use crate::error::ExportError;
use bytes::Bytes;
use millrace_clickhouse::quoted_name;
use reqwest::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url};
use std::time::Duration;
use uuid::Uuid;

/// Bytes of an answer that are read at most: results are a few words.
const ANSWER_BYTES_MAX: usize = 256 << 10;
const QUERY_ID: &str = "x-clickhouse-query-id";
const EXCEPTION_CODE: &str = "x-clickhouse-exception-code";

/// Server, its database and the export's table in it.
pub(super) struct Server {
    client: Client,
    pub(super) url: Url,
    headers: HeaderMap,
    pub(super) database: String,
    pub(super) table: String,
    pub(super) layout: &'static Layout,
    pub(super) retry_policy: RetryPolicy,
}

/// Statement, with the rows that it inserts, if it does.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) sql: String,
    /// Id that the answer has to name.
    pub(super) id: String,
    pub(super) settings: Vec<(&'static str, String)>,
    pub(super) rows: Bytes,
    pub(super) time_max: Duration,
}

impl Server {
    pub(super) fn of(
        settings: &Settings<'_>,
        layout: &'static Layout,
        client: Client,
        retry_policy: RetryPolicy,
    ) -> Result<Self, ExportError> {
        let no_url = |_| ExportError::permanent("The destination's url is not a URL.");
        let mut url = Url::parse(settings.required("url")?).map_err(no_url)?;
        url.set_fragment(None);
        let mut headers = HeaderMap::new();
        for (name, field) in [
            ("x-clickhouse-user", "user"),
            ("x-clickhouse-key", "password"),
        ] {
            let wrong = |_| {
                ExportError::permanent(format!(
                    "The {field} has characters that no header can have."
                ))
            };
            let mut value = HeaderValue::from_str(settings.required(field)?).map_err(wrong)?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        Ok(Self {
            client,
            url,
            headers,
            database: settings.required("database")?.to_owned(),
            table: settings.text_or("table_name", layout.rows).to_owned(),
            layout,
            retry_policy,
        })
    }

    /// Quotes the name of a table of the database.
    pub(super) fn named(&self, table: &str) -> String {
        format!("{}.{}", quoted_name(&self.database), quoted_name(table))
    }

    /// Statement without rows, with an id of its own.
    pub(super) fn statement(&self, sql: impl Into<String>) -> Statement {
        Statement {
            sql: sql.into(),
            id: format!("millrace-{}", Uuid::new_v4().simple()),
            settings: Vec::new(),
            rows: Bytes::new(),
            time_max: self.retry_policy.timeout,
        }
    }

    /// Runs a statement that may be repeated until it is answered; returns the answer.
    ///
    /// # Errors
    /// The server refuses, or is not reached in several tries.
    pub(super) async fn run(&self, statement: &Statement) -> Result<String, ExportError> {
        retried(&self.retry_policy, || self.once(statement)).await
    }

    /// Runs a query whose answer is a number.
    ///
    /// # Errors
    /// As [`Server::run`], and if the answer is no number.
    pub(super) async fn number(&self, sql: &str) -> Result<u64, ExportError> {
        let answer = self.run(&self.statement(sql)).await?;
        let number = answer.trim().parse();
        number.map_err(|_| ExportError::retryable("ClickHouse's answer cannot be read."))
    }

    /// URL of a statement, with its settings.
    fn url_of(&self, statement: &Statement) -> Url {
        let mut url = self.url.clone();
        let ids = [
            ("query", statement.sql.as_str()),
            ("query_id", statement.id.as_str()),
        ];
        let settings = statement.settings.iter();
        let settings = settings.map(|(name, value)| (*name, value.as_str()));
        let pairs = ids.into_iter().chain(settings);
        url.query_pairs_mut().clear().extend_pairs(pairs);
        url
    }

    /// Runs a statement once.
    pub(super) async fn once(&self, statement: &Statement) -> Result<String, FailedTry> {
        let request = self
            .client
            .post(self.url_of(statement))
            .headers(self.headers.clone())
            // Also of nothing: ClickHouse refuses a POST whose length it does not know.
            .header(CONTENT_LENGTH, statement.rows.len())
            .timeout(statement.time_max)
            .body(statement.rows.clone());
        let answer = request.send().await.map_err(|error| unanswered(&error))?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let code = text_of(&headers, EXCEPTION_CODE).and_then(|code| code.parse().ok());
        let failed = |error| FailedTry {
            error,
            retry_after: retry_after(&headers),
        };
        if let Some(code) = code {
            return Err(failed(failure::of_exception(code)));
        }
        if status != StatusCode::OK {
            return Err(failed(failure::of_status(status)));
        }
        if text_of(&headers, QUERY_ID) != Some(statement.id.as_str()) {
            return Err(failed(failure::unproven()));
        }
        Ok(read(answer).await?)
    }
}

fn text_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Reads an answer. An exception after its beginning is text, which is no number.
async fn read(mut answer: Response) -> Result<String, ExportError> {
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(|error| unanswered(&error))? {
        if body.len() + piece.len() > ANSWER_BYTES_MAX {
            return Err(ExportError::retryable("The server's answer is too long."));
        }
        body.extend_from_slice(&piece);
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_of(bytes: usize) -> Result<String, ExportError> {
        read(Response::from(http::Response::new("x".repeat(bytes)))).await
    }

    #[tokio::test]
    async fn an_answer_over_the_limit_is_refused() {
        let whole = read_of(ANSWER_BYTES_MAX).await.unwrap();
        assert_eq!(whole.len(), ANSWER_BYTES_MAX);
        let error = read_of(ANSWER_BYTES_MAX + 1).await.unwrap_err();
        assert!(error.message.contains("too long"), "{error}");
    }
}
