//! What an answer means.

use super::speech::advice;
use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use std::error::Error;
use std::time::Duration;

/// Advice where somebody else answers.
const CHECK_URL: &str = "check --url, which is where events go: the address of `millrace serve` or `millrace ingest` \
                         for ingestion, not that of the organization API";

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was taken: stored but for these.
    Taken {
        /// The refused events that the server names, which are the first hundred.
        refused: Vec<Refusal>,
        /// How many are refused in all.
        refused_count: usize,
    },
    /// Not now: the same again after a while.
    Later {
        /// How long the server asks to wait.
        after: Option<Duration>,
        /// Whether the project's rate is what stands against it, not the server's load.
        is_rate: bool,
        /// What it said.
        message: String,
    },
    /// It is too large, and would be taken in parts.
    TooLarge {
        /// What it said.
        message: String,
    },
    /// The body as a whole cannot be read, because of one event or more in it.
    Unreadable {
        /// The server's code.
        code: String,
        /// What it said.
        message: String,
    },
    /// Nothing will be taken, however often it is tried.
    Never {
        /// The server's code.
        code: String,
        /// What it said, and what to do.
        message: String,
    },
}

/// An event that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Refusal {
    /// Its place in the request.
    pub index: usize,
    /// The rule it breaks.
    pub code: String,
    /// For people.
    pub detail: String,
    /// Where, such as `batch[7].timestamp`.
    #[serde(default)]
    pub attr: Option<String>,
}

impl Refusal {
    /// The field that `attr` names.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        let (_, field) = self.attr.as_ref()?.split_once("].")?;
        Some(field)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    code: Option<String>,
    detail: Option<String>,
    rejected: Vec<Refusal>,
    rejected_count: usize,
}

impl Answer {
    /// Of an exchange that broke: whether the request was stored nobody knows, and it is sent again, but to a server that
    /// does not speak what the address says.
    pub(super) fn broken(error: &reqwest::Error) -> Self {
        let server = error.url().map_or_else(
            || "the server".to_owned(),
            |url| url.origin().ascii_serialization(),
        );
        if let Some(advice) = advice(error) {
            return Self::Never {
                code: "wrong_address".to_owned(),
                message: format!("{server} {advice}"),
            };
        }
        // The last of the chain says what happened; what is above it repeats the address.
        let chain = std::iter::successors(error.source(), |error| (*error).source());
        let reason = chain.last().map_or(String::new(), |it| format!(": {it}"));
        let message = match error {
            error if error.is_connect() => format!("no connection to {server}{reason}"),
            error if error.is_timeout() => format!("no answer from {server} in time"),
            _ => format!("the connection to {server} broke{reason}"),
        };
        Self::Later {
            after: None,
            is_rate: false,
            message,
        }
    }

    /// Of a status and a body.
    pub(super) fn read(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let parsed: Option<Body> = serde_json::from_slice(body).ok();
        // A proxy's answers are none of ours.
        let is_ours = parsed.is_some();
        let body = parsed.unwrap_or_default();
        let code = body.code.unwrap_or_default();
        let message = body
            .detail
            .unwrap_or_else(|| format!("the server answered {status}"));
        match status.as_u16() {
            200 if is_ours => Self::Taken {
                refused_count: body.rejected_count.max(body.rejected.len()),
                refused: body.rejected,
            },
            400 if body.rejected_count > 0 => Self::Taken {
                refused_count: body.rejected_count,
                refused: body.rejected,
            },
            400 | 415 if is_ours => Self::Unreadable { code, message },
            413 => Self::TooLarge { message },
            429 if code == "migration_volume_exceeded" => Self::Never {
                message: how_to_ask(&message),
                code,
            },
            408 | 425 | 429 | 500..=599 => Self::Later {
                after: retry_after(headers),
                is_rate: status == StatusCode::TOO_MANY_REQUESTS || code == "too_many_months",
                message,
            },
            200 | 400 | 415 => Self::Never {
                code: "wrong_address".to_owned(),
                message: format!("the server answers {status} without JSON; {CHECK_URL}"),
            },
            404 | 405 => Self::Never {
                code: "wrong_address".to_owned(),
                message: format!("no events are taken there ({status}); {CHECK_URL}"),
            },
            401 => Self::Never {
                message: format!("{message} Check --project-key"),
                code,
            },
            _ => Self::Never { code, message },
        }
    }
}

fn how_to_ask(message: &str) -> String {
    format!(
        "{message}\nAsk the operator for more, then run the same command again: it goes on where it stopped"
    )
}

/// In seconds, as our server says it; a date nobody sends here.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn read(status: u16, body: &str) -> Answer {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("7"));
        Answer::read(
            StatusCode::from_u16(status).unwrap(),
            &headers,
            body.as_bytes(),
        )
    }

    #[test]
    fn answers_mean_what_the_contract_says() {
        let refusal = r#"{"index":3,"code":"invalid_uuid","detail":"No.","attr":"batch[3].uuid"}"#;
        let taken = |body: String| {
            let Answer::Taken {
                refused,
                refused_count,
            } = read(200, &body)
            else {
                panic!("{body}");
            };
            (refused, refused_count)
        };
        assert_eq!(taken(r#"{"status":"Ok"}"#.to_owned()), (vec![], 0));
        let (refused, count) = taken(format!(
            r#"{{"status":"Ok","accepted":1,"rejected_count":200,"rejected":[{refusal}]}}"#
        ));
        assert_eq!(
            (refused[0].index, refused[0].field(), count),
            (3, Some("uuid"), 200)
        );
        let all = format!(
            r#"{{"code":"invalid_uuid","detail":"No.","accepted":0,"rejected_count":1,"rejected":[{refusal}]}}"#
        );
        assert!(matches!(
            read(400, &all),
            Answer::Taken {
                refused_count: 1,
                ..
            }
        ));
        let invalid = r#"{"code":"invalid_json","detail":"No."}"#;
        assert!(
            matches!(read(400, invalid), Answer::Unreadable { code, .. } if code == "invalid_json")
        );
        assert!(matches!(read(413, "{}"), Answer::TooLarge { .. }));
        let seven = Some(Duration::from_secs(7));
        let rate = r#"{"code":"migration_rate_exceeded"}"#;
        assert!(
            matches!(read(429, rate), Answer::Later { after, is_rate: true, .. } if after == seven)
        );
        let months = r#"{"code":"too_many_months"}"#;
        assert!(matches!(
            read(503, months),
            Answer::Later { is_rate: true, .. }
        ));
        for status in [408, 500, 502, 503, 504] {
            let answer = read(status, "<html>");
            assert!(
                matches!(answer, Answer::Later { after, is_rate: false, .. } if after == seven)
            );
        }
    }

    #[test]
    fn what_will_never_be_taken_says_what_to_do() {
        let table = [
            (
                429,
                r#"{"code":"migration_volume_exceeded","detail":"Enough."}"#,
                "Enough.\nAsk the operator",
            ),
            (
                401,
                r#"{"code":"unknown_api_key","detail":"No such key."}"#,
                "--project-key",
            ),
            (
                403,
                r#"{"code":"payment_required","detail":"Not for you."}"#,
                "Not for you.",
            ),
            (404, "nothing", "(404 Not Found); check --url"),
            (
                405,
                r#"{"code":"method_not_allowed","detail":"No."}"#,
                "check --url",
            ),
            (200, "<html>", "200 OK without JSON; check --url"),
            (400, "<html>", "400 Bad Request without JSON; check --url"),
        ];
        for (status, body, needle) in table {
            let Answer::Never { message, .. } = read(status, body) else {
                panic!("{status}");
            };
            assert!(message.contains(needle), "{message}");
        }
    }
}
