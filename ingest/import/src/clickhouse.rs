//! ClickHouse over HTTP, as far as an import asks it: counts of what is stored, and rows of another instance.

use crate::send::{client, client_with};
use crate::tally::Tally;
use anyhow::Context;
use reqwest::Response;
use std::error::Error;
use tokio_rustls::rustls::ClientConfig;
use url::Url;

/// How a ClickHouse is reached.
#[derive(Clone, Debug)]
pub struct ClickHouse {
    client: reqwest::Client,
    url: Url,
    user: String,
    password: String,
}

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// Nobody is there, or the line broke.
    #[error("ClickHouse at {url} does not answer; check its URL and that it runs ({reason})")]
    Unreachable {
        /// Where.
        url: String,
        /// What happened.
        reason: String,
    },
    /// It cannot now.
    #[error("ClickHouse cannot: {0}")]
    Busy(String),
    /// It never will.
    #[error("ClickHouse refuses: {0}")]
    Refused(String),
}

impl ClickHouse {
    /// The server at `url`, such as `http://127.0.0.1:8123`.
    ///
    /// # Errors
    /// When the URL is none, or TLS cannot be set up.
    pub fn new(url: &str, user: &str, password: &str) -> anyhow::Result<Self> {
        Self::with(client()?, url, user, password)
    }

    /// A server with other authorities than the system's.
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
            url: Url::parse(url).with_context(|| format!("{url} is no URL of a ClickHouse"))?,
            user: user.to_owned(),
            password: password.to_owned(),
        })
    }

    /// Where it is, without what its URL may have of credentials.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// Runs a query with parameters, as in `{team:Int64}`; gives the answer once its status is there.
    ///
    /// # Errors
    /// When it cannot be reached or refuses.
    pub async fn query(
        &self,
        sql: &str,
        params: &[(&str, String)],
    ) -> Result<Response, QueryError> {
        let mut url = self.url.clone();
        // An exception behind the first rows would else look like their end.
        url.query_pairs_mut()
            .append_pair("wait_end_of_query", "1")
            .extend_pairs(
                params
                    .iter()
                    .map(|(name, value)| (format!("param_{name}"), value)),
            );
        let answer = self
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
        let status = answer.status();
        if !status.is_success() {
            let text = answer.text().await.unwrap_or_default();
            let text = text.trim().to_owned();
            return Err(if status.is_client_error() {
                QueryError::Refused(text)
            } else {
                QueryError::Busy(text)
            });
        }
        Ok(answer)
    }

    /// How many imported events of a project are stored, by day and name: as they count when ClickHouse has merged, and
    /// how many rows there are now.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn stored(&self, database: &str, team_id: i64) -> anyhow::Result<Stored> {
        let of = |table: String| async move {
            let sql = format!(
                "SELECT toUInt32(toDate(timestamp)), event, count() FROM {table} \
                 WHERE team_id = {{team:Int64}} AND historical_migration GROUP BY 1, 2 \
                 FORMAT JSONCompactEachRow \
                 SETTINGS output_format_json_quote_64bit_integers = 0"
            );
            let answer = self.query(&sql, &[("team", team_id.to_string())]).await?;
            let text = answer
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

/// What is stored of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Events, each once.
    pub merged: Tally,
    /// Rows, of which those of the same event are merged by and by.
    pub rows: u64,
}

/// The last of a chain, which says what happened; what is above it repeats the query.
fn root(error: &reqwest::Error) -> String {
    let first: Option<&(dyn Error + 'static)> = error.source();
    let chain = std::iter::successors(first, |error| (*error).source());
    chain
        .last()
        .map_or("the line broke".to_owned(), ToString::to_string)
}

fn counts(text: &str) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    for line in text.lines() {
        let (day, event, count): (i64, String, u64) = serde_json::from_str(line)
            .with_context(|| format!("ClickHouse answers something else than counts: {line}"))?;
        tally.add(day, &event, count);
    }
    Ok(tally)
}
