//! HTTP client of a resend: sends one request and classifies its outcome.
//!
//! Requests are `strict`: the server stores nothing if it rejects any event, so that an event which
//! is rejected again makes no second rejected event. The others are sent again without it.

use super::corrected::CorrectedEvent;
use crate::config::Config;
use crate::own_client;
use anyhow::{anyhow, ensure};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::error::Error;
use std::io;
use std::time::Duration;

/// Pause after a broken connection.
const PAUSE_AFTER_BREAK: Duration = Duration::from_secs(1);
/// Largest request, in bytes, that every server reads to its end: a larger one may break the
/// connection by its length.
const ALWAYS_READ_BYTES: usize = 8 << 20;

/// Limits of a request, its repetitions included.
#[derive(Clone, Copy, Debug)]
pub struct SendLimits {
    /// Attempts at a server that asks for a later retry.
    pub tries_max: u32,
    /// Timeout of a response.
    pub response_timeout: Duration,
    /// Longest pause between two attempts.
    pub pause_max: Duration,
}

/// Outcome of a request.
#[derive(Debug)]
pub enum ResendOutcome {
    /// All events are stored, or would be in a dry run.
    Accepted,
    /// These are rejected, and nothing is stored.
    EventsRejected(Vec<Rejection>),
    /// The request is rejected as a whole, because of one event or more in it.
    RequestRejected(String),
    /// The server accepts no request of this project.
    ProjectRejected(String),
    /// No response came, and the events may be stored.
    InDoubt(anyhow::Error),
}

/// Event that is rejected again.
#[derive(Debug, Deserialize)]
pub struct Rejection {
    /// Index in the request, from 0.
    pub index: usize,
    code: String,
    detail: String,
}

impl Rejection {
    /// Code and detail of the rejection.
    #[must_use]
    pub fn reason(&self) -> String {
        format!("{}: {}", self.code, self.detail)
    }
}

#[derive(Serialize)]
struct Request<'a> {
    api_key: &'a str,
    historical_migration: bool,
    batch: Vec<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseBody {
    code: String,
    detail: String,
    rejected: Vec<Rejection>,
}

/// Effect of a request on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// Accepted events are stored.
    Store,
    /// Nothing is stored; the response is that of a request whose events would be.
    DryRun,
}

/// HTTP client for the ingest listener of a server.
#[derive(Debug)]
pub struct ResendClient {
    client: reqwest::Client,
    url: String,
    dry_run_url: String,
    limits: SendLimits,
}

impl ResendClient {
    /// Creates a client for the ingest listener at this URL.
    ///
    /// # Errors
    /// When the server has no such listener, or the client cannot be set up.
    pub fn new(config: &Config, ingest_url: &str, limits: SendLimits) -> anyhow::Result<Self> {
        ensure!(
            !ingest_url.is_empty(),
            "the server of this data folder accepts no events, or was not started yet: start it, or name \
             the folder of one that does with --data-dir"
        );
        Ok(Self {
            client: own_client::client(config)?,
            url: format!("{ingest_url}/batch/?strict=true"),
            dry_run_url: format!("{ingest_url}/batch/?strict=true&dry_run=true"),
            limits,
        })
    }

    /// Sends events of one project until a response decides about them.
    ///
    /// # Errors
    /// When the server cannot be reached, or accepts nothing for a while, and nothing is stored.
    pub async fn send(
        &self,
        mode: SendMode,
        key: &str,
        historical_migration: bool,
        events: &[CorrectedEvent<'_>],
    ) -> anyhow::Result<ResendOutcome> {
        let url = match mode {
            SendMode::Store => &self.url,
            SendMode::DryRun => &self.dry_run_url,
        };
        let body = serde_json::to_string(&Request {
            api_key: key,
            historical_migration,
            batch: events.iter().map(|event| &*event.json).collect(),
        })?;
        let mut may_be_stored = false;
        let mut last = anyhow!("it was not tried");
        for _ in 0..self.limits.tries_max {
            let pause = match self.post(url, &body).await {
                Ok((status, after, answer)) => {
                    if let Some(outcome) = outcome(status, &answer) {
                        return Ok(outcome);
                    }
                    may_be_stored |= !nothing_was_stored(status, &answer);
                    let detail = error_text(status, &answer);
                    last = anyhow!("the server accepts nothing now: {detail}");
                    let pause_max = self.limits.pause_max;
                    after.unwrap_or(pause_max).min(pause_max)
                }
                Err(error) if is_connection_broken(&error) => {
                    if body.len() > ALWAYS_READ_BYTES {
                        return Ok(ResendOutcome::RequestRejected(format!(
                            "the connection broke: {}",
                            innermost(&error)
                        )));
                    }
                    may_be_stored = true;
                    last = anyhow!(error).context(format!("the connection to {url} broke"));
                    PAUSE_AFTER_BREAK
                }
                Err(error) => {
                    may_be_stored |= !error.is_connect();
                    last = anyhow!(error).context(format!("cannot reach {url}"));
                    break;
                }
            };
            tokio::time::sleep(pause).await;
        }
        if may_be_stored {
            return Ok(ResendOutcome::InDoubt(last));
        }
        Err(last)
    }

    async fn post(
        &self,
        url: &str,
        body: &str,
    ) -> reqwest::Result<(StatusCode, Option<Duration>, String)> {
        let request = self.client.post(url);
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .timeout(self.limits.response_timeout)
            .body(body.to_owned());
        let response = request.send().await?;
        let status = response.status();
        let after = response.headers().get(RETRY_AFTER);
        let after = after.and_then(|after| after.to_str().ok()?.parse().ok());
        let text = response.text().await?;
        Ok((status, after.map(Duration::from_secs), text))
    }
}

/// Text of the innermost error, which names the cause; the outer ones repeat the address.
fn innermost(error: &reqwest::Error) -> String {
    let chain = std::iter::successors(error.source(), |error| (*error).source());
    chain
        .last()
        .map_or_else(|| error.to_string(), ToString::to_string)
}

/// Returns true if the server broke the connection before it read the request to its end.
fn is_connection_broken(error: &reqwest::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    let mut chain = std::iter::successors(error.source(), |error| (*error).source());
    let broken = [BrokenPipe, ConnectionAborted, ConnectionReset];
    !error.is_connect()
        && chain.any(|error| {
            let error = error.downcast_ref::<io::Error>();
            error.is_some_and(|error| broken.contains(&error.kind()))
        })
}

/// Codes of 503 responses to requests that are, or may be, stored all the same.
const STORED_CODES: [&str; 2] = ["log_failed", "not_shipped"];

/// Returns true if the response says that nothing was stored. A 503 without a code may come from a
/// gateway, which does not know.
fn nothing_was_stored(status: StatusCode, text: &str) -> bool {
    let body: ResponseBody = serde_json::from_str(text).unwrap_or_default();
    match status.as_u16() {
        429 => true,
        503 => !body.code.is_empty() && !STORED_CODES.contains(&&*body.code),
        _ => false,
    }
}

/// Outcome that a response decides; `None` when the same request is to be sent again later.
fn outcome(status: StatusCode, text: &str) -> Option<ResendOutcome> {
    let body: ResponseBody = serde_json::from_str(text).unwrap_or_default();
    Some(match status.as_u16() {
        // A dry run lists what it rejects; another request that rejects anything is no success.
        200 if body.rejected.is_empty() => ResendOutcome::Accepted,
        200 => ResendOutcome::EventsRejected(body.rejected),
        400 if !body.rejected.is_empty() => ResendOutcome::EventsRejected(body.rejected),
        400 | 413 | 415 => ResendOutcome::RequestRejected(error_text(status, text)),
        429 if body.code == "migration_volume_exceeded" => {
            ResendOutcome::ProjectRejected(error_text(status, text))
        }
        408 | 425 | 429 | 500..=599 => return None,
        _ => ResendOutcome::ProjectRejected(error_text(status, text)),
    })
}

fn error_text(status: StatusCode, text: &str) -> String {
    match serde_json::from_str::<ResponseBody>(text) {
        Ok(body) if !body.code.is_empty() => format!("{}: {}", body.code, body.detail),
        _ => format!("the server answered {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_classified_by_what_they_reject() {
        let refused = r#"{"code":"c","detail":"d","rejected":[{"index":3,"code":"c","detail":"d","attr":null}]}"#;
        let volume = r#"{"code":"migration_volume_exceeded","detail":"d"}"#;
        let rate = r#"{"code":"migration_rate_exceeded","detail":"d"}"#;
        let plain = r#"{"code":"c","detail":"d"}"#;
        let table = [
            (200, r#"{"status":"Ok"}"#, "taken"),
            (
                200,
                r#"{"status":"Ok","accepted":1,"warnings":[]}"#,
                "taken",
            ),
            (200, refused, "refused 3 c: d"),
            (400, refused, "refused 3 c: d"),
            (400, plain, "whole c: d"),
            (413, plain, "whole c: d"),
            (401, plain, "never c: d"),
            (404, "<html>", "never the server answered 404 Not Found"),
            (429, volume, "never migration_volume_exceeded: d"),
            (429, rate, "later"),
            (503, plain, "later"),
            (502, "<html>", "later"),
        ];
        for (status, text, expected) in table {
            let found = match outcome(StatusCode::from_u16(status).unwrap(), text) {
                None => "later".to_owned(),
                Some(ResendOutcome::Accepted) => "taken".to_owned(),
                Some(ResendOutcome::EventsRejected(list)) => {
                    format!("refused {} {}", list[0].index, list[0].reason())
                }
                Some(ResendOutcome::RequestRejected(why)) => format!("whole {why}"),
                Some(ResendOutcome::ProjectRejected(why)) => format!("never {why}"),
                Some(ResendOutcome::InDoubt(why)) => format!("lost {why}"),
            };
            assert_eq!(found, expected, "{status} {text}");
        }
    }

    #[test]
    fn only_a_known_code_says_that_nothing_was_stored() {
        let code = |code: &str| format!(r#"{{"code":"{code}","detail":"d"}}"#);
        let table = [
            (429, "migration_rate_exceeded", true),
            (503, "overloaded", true),
            (503, "disk_full", true),
            (503, "shutting_down", true),
            (503, "log_failed", false),
            (503, "not_shipped", false),
            (503, "", false),
            (500, "internal", false),
        ];
        for (status, name, expected) in table {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(nothing_was_stored(status, &code(name)), expected, "{name}");
        }
        let by_gateway = nothing_was_stored(StatusCode::SERVICE_UNAVAILABLE, "<html>");
        assert!(!by_gateway);
    }
}
