//! ClickHouse client over HTTP for an import's queries: counts of stored events, and rows of
//! another instance.

use crate::event_counts::EventCounts;
use crate::send::{client, client_with};
use anyhow::Context;
use reqwest::Response;
use std::error::Error;
use tokio_rustls::rustls::ClientConfig;
use url::Url;

/// A ClickHouse server, with its URL and credentials.
#[derive(Clone, Debug)]
pub struct ClickHouse {
    client: reqwest::Client,
    url: Url,
    user: String,
    password: String,
}

/// Failure of a query.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The server cannot be reached, or the connection broke.
    #[error("ClickHouse at {url} does not answer; check its URL and that it runs ({reason})")]
    Unreachable {
        /// URL of the server.
        url: String,
        /// Cause of the failure.
        reason: String,
    },
    /// The server fails for now.
    #[error("ClickHouse cannot: {0}")]
    Busy(String),
    /// The server refuses the query for good.
    #[error("ClickHouse refuses: {0}")]
    Refused(String),
}

impl ClickHouse {
    /// Creates a client for the server at `url`, such as `http://127.0.0.1:8123`.
    ///
    /// # Errors
    /// The URL is invalid, or TLS cannot be set up.
    pub fn new(url: &str, user: &str, password: &str) -> anyhow::Result<Self> {
        Self::with(client()?, url, user, password)
    }

    /// Creates a client that trusts other certificate authorities than the system's.
    ///
    /// # Errors
    /// As [`ClickHouse::new`].
    pub fn with_tls(
        url: &str,
        user: &str,
        password: &str,
        tls: ClientConfig,
    ) -> anyhow::Result<Self> {
        Self::with(client_with(tls)?, url, user, password)
    }

    fn with(
        client: reqwest::Client,
        url: &str,
        user: &str,
        password: &str,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            client,
            url: Url::parse(url).with_context(|| format!("{url} is not a URL of a ClickHouse"))?,
            user: user.to_owned(),
            password: password.to_owned(),
        })
    }

    /// URL of the server, without credentials.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// Runs a query with parameters, as in `{project:Int64}`; returns the response once its status
    /// is known.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the query.
    pub async fn query(
        &self,
        sql: &str,
        params: &[(&str, String)],
    ) -> Result<Response, QueryError> {
        let mut url = self.url.clone();
        // Without this an exception after the first rows would look like their end.
        url.query_pairs_mut()
            .append_pair("wait_end_of_query", "1")
            .extend_pairs(
                params
                    .iter()
                    .map(|(name, value)| (format!("param_{name}"), value)),
            );
        let response = self
            .client
            .post(url)
            .header("X-ClickHouse-User", &self.user)
            .header("X-ClickHouse-Key", &self.password)
            .body(sql.to_owned())
            .send()
            .await
            .map_err(|error| QueryError::Unreachable {
                url: self.url(),
                reason: root(&error),
            })?;
        let status = response.status();
        if !status.is_success() {
            let text = response.text().await.unwrap_or_default();
            let text = text.trim().to_owned();
            return Err(if status.is_client_error() {
                QueryError::Refused(text)
            } else {
                QueryError::Busy(text)
            });
        }
        Ok(response)
    }

    /// Counts the stored imported events of a project by day and name, as they are after ClickHouse
    /// has merged duplicates, and the rows that there are now.
    ///
    /// # Errors
    /// The query fails.
    pub async fn stored(&self, database: &str, project_id: i64) -> anyhow::Result<Stored> {
        let of = |table: String| async move {
            let sql = format!(
                "SELECT toUInt32(toDate(timestamp)), event, count() FROM {table} \
                 WHERE team_id = {{project:Int64}} AND historical_migration GROUP BY 1, 2 \
                 FORMAT JSONCompactEachRow \
                 SETTINGS output_format_json_quote_64bit_integers = 0"
            );
            let response = self
                .query(&sql, &[("project", project_id.to_string())])
                .await?;
            let text = response
                .text()
                .await
                .context("ClickHouse's answer broke off")?;
            counts(&text)
        };
        let table = format!("`{}`.events", database.replace('`', "\\`"));
        Ok(Stored {
            merged: of(format!("{table} FINAL")).await?,
            rows: of(table).await?.total(),
        })
    }
}

/// Stored events of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Events, each once.
    pub merged: EventCounts,
    /// Number of rows, of which ClickHouse merges those of the same event later.
    pub rows: u64,
}

/// Message of the innermost error, which names the cause; the outer ones repeat the query.
fn root(error: &reqwest::Error) -> String {
    let first: Option<&(dyn Error + 'static)> = error.source();
    let chain = std::iter::successors(first, |error| (*error).source());
    chain
        .last()
        .map_or("the line broke".to_owned(), ToString::to_string)
}

fn counts(text: &str) -> anyhow::Result<EventCounts> {
    let mut counts = EventCounts::default();
    for line in text.lines() {
        let (day, event, count): (i64, String, u64) = serde_json::from_str(line)
            .with_context(|| format!("ClickHouse answers something else than counts: {line}"))?;
        counts.add(day, &event, count);
    }
    Ok(counts)
}
