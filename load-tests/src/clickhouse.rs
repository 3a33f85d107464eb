//! Client of ClickHouse's HTTP interface: a POST with the query returns tab-separated rows.

use crate::credentials::Credentials;
use crate::peer::Peer;
use crate::target::Target;
use crate::tls::Trust;
use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::Request;
use http::header::{AUTHORIZATION, HOST};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use std::fmt;
use std::future::Future;
use std::time::Duration;

/// Longest wait for one step of a response: ClickHouse counts and sorts for a while, but not for
/// ever.
const ANSWER_MAX: Duration = Duration::from_secs(120);

/// URL, login and table of a ClickHouse.
#[derive(Clone)]
pub struct ClickHouse {
    /// `http://host:port`, or `https://` with a certificate that the system trusts.
    pub url: String,
    /// User name.
    pub user: String,
    /// Password of the user.
    pub password: String,
    /// Table to query, with its database.
    pub table: String,
}

impl fmt::Debug for ClickHouse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClickHouse")
            .field("url", &self.url)
            .field("user", &self.user)
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

impl ClickHouse {
    /// Default table of events.
    pub const TABLE: &'static str = "millrace.events";
    /// Rows of events that may have been rejected: each event is in exactly one of the two tables.
    pub const ACCEPTED_AND_REJECTED: &'static str = "(SELECT uuid FROM millrace.events UNION ALL \
        SELECT toUUIDOrZero(JSONExtractString(raw, 'uuid')) AS uuid FROM millrace.rejected_events)";

    /// The ClickHouse of a credentials file.
    #[must_use]
    pub fn of(credentials: &Credentials) -> Self {
        Self {
            url: credentials.clickhouse_url.clone(),
            user: credentials.clickhouse_user.clone(),
            password: credentials.clickhouse_password.clone(),
            table: Self::TABLE.to_owned(),
        }
    }

    /// Sends a query and passes each line of the response to `row` as it arrives.
    ///
    /// # Errors
    /// No connection, an exception (also in the middle of a response), or an error of `row`.
    pub async fn rows(&self, query: &str, mut row: impl FnMut(&str) -> Result<()>) -> Result<()> {
        let mut body = self.ask(query).await?;
        let mut line = Vec::new();
        while let Some(frame) = in_time(body.frame()).await? {
            let frame = frame.context("ClickHouse's answer broke off")?;
            for piece in frame
                .data_ref()
                .map_or(&[][..], |data| data)
                .split_inclusive(|byte| *byte == b'\n')
            {
                line.extend_from_slice(piece);
                if line.ends_with(b"\n") {
                    let text = std::str::from_utf8(&line).context("ClickHouse's answer")?;
                    row(text.trim_end_matches('\n'))?;
                    line.clear();
                }
            }
        }
        if !line.is_empty() {
            bail!("ClickHouse's answer is incomplete");
        }
        Ok(())
    }

    /// The single number that a query returns.
    ///
    /// # Errors
    /// See [`Self::rows`]; or the response is not one number.
    pub async fn number(&self, query: &str) -> Result<u64> {
        let mut number = None;
        self.rows(query, |row| {
            number = Some(
                row.parse()
                    .with_context(|| format!("{row:?} is not a number"))?,
            );
            Ok(())
        })
        .await?;
        number.context("ClickHouse answered nothing")
    }

    /// Sends a statement without a result.
    ///
    /// # Errors
    /// No connection, or an exception.
    pub async fn execute(&self, statement: &str) -> Result<()> {
        read_out(self.ask(statement).await?).await
    }

    /// Sends a query, discards its result and returns its size in bytes.
    ///
    /// # Errors
    /// See [`Self::rows`].
    pub async fn drain(&self, query: &str) -> Result<u64> {
        let mut body = self.ask(query).await?;
        let mut bytes = 0;
        while let Some(frame) = in_time(body.frame()).await? {
            let frame = frame.context("ClickHouse's answer broke off")?;
            bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        Ok(bytes)
    }

    /// Sends rows whose statement is in the query string, and waits until they are stored.
    ///
    /// # Errors
    /// See [`Self::execute`].
    pub async fn insert(&self, path_and_query: &str, rows: Bytes) -> Result<()> {
        read_out(self.post(path_and_query, rows).await?).await
    }

    async fn ask(&self, query: &str) -> Result<Incoming> {
        self.post("/", Bytes::from(query.to_owned())).await
    }

    async fn post(&self, path_and_query: &str, body: Bytes) -> Result<Incoming> {
        let target = Target::parse(&self.url)?;
        let peer = Peer::new(&target, &Trust::default())?;
        let stream = in_time(peer.connect())
            .await?
            .with_context(|| format!("cannot connect to ClickHouse at {}", target.authority))?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let login = BASE64_STANDARD.encode(format!("{}:{}", self.user, self.password));
        let request = Request::post(path_and_query)
            .header(HOST, target.authority)
            .header(AUTHORIZATION, format!("Basic {login}"))
            .body(Full::new(body))
            .context("request")?;
        let response = in_time(sender.send_request(request)).await?;
        let response = response.context("ClickHouse")?;
        if response.status().is_success()
            && !response
                .headers()
                .contains_key("x-clickhouse-exception-code")
        {
            return Ok(response.into_body());
        }
        let status = response.status();
        let text = in_time(response.into_body().collect()).await??.to_bytes();
        bail!(
            "ClickHouse answers {status}: {}",
            String::from_utf8_lossy(&text).trim()
        );
    }
}

/// Reads a response without content to its end.
async fn read_out(body: Incoming) -> Result<()> {
    in_time(body.collect())
        .await?
        .context("ClickHouse's answer broke off")?;
    Ok(())
}

/// Limits a wait: ClickHouse may be down or stuck at any step.
async fn in_time<T>(waited_for: impl Future<Output = T>) -> Result<T> {
    let waited = tokio::time::timeout(ANSWER_MAX, waited_for).await;
    waited.with_context(|| format!("ClickHouse did not answer within {ANSWER_MAX:?}"))
}
