//! One request of a resend, and what its answer means.
//!
//! Requests are `strict`: with any event refused the server stores nothing, so that an event which is refused again is no
//! second refused event. The others go again without it.

use super::mended::Mended;
use anyhow::anyhow;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::io;
use std::time::Duration;
use ureq::http::StatusCode;

/// How long an answer may take.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(60);
/// Times that a server which says "later" is asked again.
const TRIES_MAX: u32 = 6;
/// What is waited for at once, at most.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// After a connection that broke.
const PAUSE_BROKEN: Duration = Duration::from_secs(1);
/// Bytes of a request that every server reads to its end, so that it is not its length that breaks the connection.
const READ_BYTES: usize = 8 << 20;

/// Meaning of an answer.
pub(super) enum Answer {
    /// All events are stored.
    Taken,
    /// These are refused, and nothing is stored.
    Refused(Vec<Refusal>),
    /// The request as a whole is refused, because of one event or more in it.
    Whole(String),
    /// No request of this project is taken.
    Never(String),
    /// There is none, and the events may be stored.
    Lost(anyhow::Error),
}

/// An event that is refused again.
#[derive(Debug, Deserialize)]
pub(super) struct Refusal {
    pub(super) index: usize,
    code: String,
    detail: String,
}

impl Refusal {
    pub(super) fn why(&self) -> String {
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
struct Body {
    code: String,
    detail: String,
    rejected: Vec<Refusal>,
}

/// Sends requests to a server.
pub(super) struct Sender {
    agent: ureq::Agent,
    url: String,
}

impl Sender {
    /// To the ingest listener at this URL.
    pub(super) fn new(ingest_url: &str) -> Self {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(ANSWER_WAIT_MAX))
            .build();
        Self {
            agent: agent.into(),
            url: format!("{ingest_url}/batch/?strict=true"),
        }
    }

    /// Sends events of one project until there is an answer that says something of them.
    ///
    /// # Errors
    /// When the server cannot be reached, or takes nothing for a minute, and nothing is stored.
    pub(super) fn send(
        &self,
        key: &str,
        historical_migration: bool,
        events: &[Mended<'_>],
    ) -> anyhow::Result<Answer> {
        let body = serde_json::to_string(&Request {
            api_key: key,
            historical_migration,
            batch: events.iter().map(|event| &*event.json).collect(),
        })?;
        let mut may_be_stored = false;
        let mut last = anyhow!("it was not tried");
        for _ in 0..TRIES_MAX {
            let pause = match self.post(&body) {
                Ok((status, after, answer)) => {
                    if let Some(meaning) = meaning(status, &answer) {
                        return Ok(meaning);
                    }
                    may_be_stored |= !is_of_nothing(status, &answer);
                    let detail = told(status, &answer);
                    last = anyhow!("the server takes nothing now: {detail}");
                    after.unwrap_or(PAUSE_MAX).min(PAUSE_MAX)
                }
                Err(ureq::Error::Io(error)) if is_broken(&error) => {
                    if body.len() > READ_BYTES {
                        return Ok(Answer::Whole(format!("the connection broke: {error}")));
                    }
                    may_be_stored = true;
                    last = anyhow!(error).context(format!("the connection to {} broke", self.url));
                    PAUSE_BROKEN
                }
                Err(error) => {
                    may_be_stored |= !is_before_sending(&error);
                    last = anyhow!(error).context(format!("cannot reach {}", self.url));
                    break;
                }
            };
            std::thread::sleep(pause);
        }
        if may_be_stored {
            return Ok(Answer::Lost(last));
        }
        Err(last)
    }

    fn post(&self, body: &str) -> Result<(StatusCode, Option<Duration>, String), ureq::Error> {
        let request = self.agent.post(&self.url);
        let request = request.header("Content-Type", "application/json");
        let mut answer = request.send(body)?;
        let after = answer.headers().get("Retry-After");
        let after = after.and_then(|after| after.to_str().ok()?.parse().ok());
        let text = answer.body_mut().read_to_string()?;
        Ok((answer.status(), after.map(Duration::from_secs), text))
    }
}

/// A server that does not read a request to its end.
fn is_broken(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionAborted | ConnectionReset
    )
}

/// An error of before the request was sent.
fn is_before_sending(error: &ureq::Error) -> bool {
    use ureq::Error::{ConnectionFailed, HostNotFound, Io, Timeout};
    match error {
        HostNotFound | ConnectionFailed => true,
        Timeout(timeout) => matches!(timeout, ureq::Timeout::Resolve | ureq::Timeout::Connect),
        Io(error) => error.kind() == io::ErrorKind::ConnectionRefused,
        _ => false,
    }
}

/// Codes of 503 of requests that may be stored all the same, or are.
const STORED_CODES: [&str; 2] = ["log_failed", "not_shipped"];

/// The answers of servers that have stored nothing. What has no code may be of a gateway, which does not know.
fn is_of_nothing(status: StatusCode, text: &str) -> bool {
    let body: Body = serde_json::from_str(text).unwrap_or_default();
    match status.as_u16() {
        429 => true,
        503 => !body.code.is_empty() && !STORED_CODES.contains(&&*body.code),
        _ => false,
    }
}

/// Meaning of an answer; none when the same is to be sent again after a while.
fn meaning(status: StatusCode, text: &str) -> Option<Answer> {
    let body: Body = serde_json::from_str(text).unwrap_or_default();
    Some(match status.as_u16() {
        200 => Answer::Taken,
        400 if !body.rejected.is_empty() => Answer::Refused(body.rejected),
        400 | 413 | 415 => Answer::Whole(told(status, text)),
        429 if body.code == "migration_volume_exceeded" => Answer::Never(told(status, text)),
        408 | 425 | 429 | 500..=599 => return None,
        _ => Answer::Never(told(status, text)),
    })
}

fn told(status: StatusCode, text: &str) -> String {
    match serde_json::from_str::<Body>(text) {
        Ok(body) if !body.code.is_empty() => format!("{}: {}", body.code, body.detail),
        _ => format!("the server answered {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_speaks_of_events_of_the_request_of_the_project_or_of_now() {
        let refused = r#"{"code":"c","detail":"d","rejected":[{"index":3,"code":"c","detail":"d","attr":null}]}"#;
        let volume = r#"{"code":"migration_volume_exceeded","detail":"d"}"#;
        let rate = r#"{"code":"migration_rate_exceeded","detail":"d"}"#;
        let plain = r#"{"code":"c","detail":"d"}"#;
        let table = [
            (200, r#"{"status":"Ok"}"#, "taken"),
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
            let found = match meaning(StatusCode::from_u16(status).unwrap(), text) {
                None => "later".to_owned(),
                Some(Answer::Taken) => "taken".to_owned(),
                Some(Answer::Refused(list)) => {
                    format!("refused {} {}", list[0].index, list[0].why())
                }
                Some(Answer::Whole(why)) => format!("whole {why}"),
                Some(Answer::Never(why)) => format!("never {why}"),
                Some(Answer::Lost(why)) => format!("lost {why}"),
            };
            assert_eq!(found, expected, "{status} {text}");
        }
    }

    #[test]
    fn a_refusal_is_of_nothing_only_if_the_server_says_so() {
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
            assert_eq!(is_of_nothing(status, &code(name)), expected, "{name}");
        }
        let of_a_gateway = is_of_nothing(StatusCode::SERVICE_UNAVAILABLE, "<html>");
        assert!(!of_a_gateway);
    }
}
