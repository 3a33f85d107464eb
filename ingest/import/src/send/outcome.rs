//! Outcome of a request, by the server's response or the failure to get one.

use super::protocol_mismatch::advice;
use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use std::error::Error;
use std::time::Duration;

/// Advice for a response that is not from an ingestion server.
const CHECK_URL: &str = "check --url, which is where events go: the address of `millrace serve` or `millrace ingest` \
                         for ingestion, not that of the organization API";

/// Outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The request was accepted, and its events stored but for the refused ones.
    Accepted {
        /// Refused events that the response lists, which are the first hundred.
        refused: Vec<Refusal>,
        /// Number of all refused events.
        refused_count: usize,
    },
    /// The request failed for now, and is to be sent again later.
    Retry {
        /// Time that the server asks to wait.
        after: Option<Duration>,
        /// True if the project's rate limit is the reason, not the server's load.
        is_rate_limited: bool,
        /// Reason by the server.
        message: String,
    },
    /// The request is too large, and is to be sent in parts.
    TooLarge {
        /// Reason by the server.
        message: String,
    },
    /// The body cannot be read as a whole, because of one event or more in it.
    Unreadable {
        /// Error code of the server.
        code: String,
        /// Reason by the server.
        message: String,
    },
    /// The request fails for good.
    Fatal {
        /// Error code of the server.
        code: String,
        /// Reason by the server, with advice.
        message: String,
    },
}

/// Refusal of one event.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Refusal {
    /// Index of the event in the request.
    pub index: usize,
    /// Code of the rule that it breaks.
    pub code: String,
    /// Reason for people.
    pub detail: String,
    /// Path of the offending field, such as `batch[7].timestamp`.
    #[serde(default)]
    pub attr: Option<String>,
}

impl Refusal {
    /// Field of the event that `attr` names.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        let (_, field) = self.attr.as_ref()?.split_once("].")?;
        Some(field)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseBody {
    code: Option<String>,
    detail: Option<String>,
    rejected: Vec<Refusal>,
    rejected_count: usize,
}

impl RequestOutcome {
    /// Outcome of an exchange that broke.
    ///
    /// It is unknown if the request was stored, so it is sent again, unless the server speaks
    /// another protocol than the address names.
    pub(super) fn of_error(error: &reqwest::Error) -> Self {
        let server = error.url().map_or_else(
            || "the server".to_owned(),
            |url| url.origin().ascii_serialization(),
        );
        if let Some(advice) = advice(error) {
            return Self::Fatal {
                code: "wrong_address".to_owned(),
                message: format!("{server} {advice}"),
            };
        }
        // The innermost error names the cause; the outer ones repeat the address.
        let chain = std::iter::successors(error.source(), |error| (*error).source());
        let reason = chain.last().map_or(String::new(), |it| format!(": {it}"));
        let message = match error {
            error if error.is_connect() => format!("no connection to {server}{reason}"),
            error if error.is_timeout() => format!("no answer from {server} in time"),
            _ => format!("the connection to {server} broke{reason}"),
        };
        Self::Retry {
            after: None,
            is_rate_limited: false,
            message,
        }
    }

    /// Outcome of a response.
    pub(super) fn of_response(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let parsed: Option<ResponseBody> = serde_json::from_slice(body).ok();
        // A proxy's responses are not JSON.
        let is_ours = parsed.is_some();
        let body = parsed.unwrap_or_default();
        let code = body.code.unwrap_or_default();
        let message = body
            .detail
            .unwrap_or_else(|| format!("the server answered {status}"));
        match status.as_u16() {
            200 if is_ours => Self::Accepted {
                refused_count: body.rejected_count.max(body.rejected.len()),
                refused: body.rejected,
            },
            400 if body.rejected_count > 0 => Self::Accepted {
                refused_count: body.rejected_count,
                refused: body.rejected,
            },
            400 | 415 if is_ours => Self::Unreadable { code, message },
            413 => Self::TooLarge { message },
            429 if code == "migration_volume_exceeded" => Self::Fatal {
                message: with_advice_to_ask(&message),
                code,
            },
            408 | 425 | 429 | 500..=599 => Self::Retry {
                after: retry_after(headers),
                is_rate_limited: status == StatusCode::TOO_MANY_REQUESTS
                    || code == "too_many_months",
                message,
            },
            200 | 400 | 415 => Self::Fatal {
                code: "wrong_address".to_owned(),
                message: format!("the server answers {status} without JSON; {CHECK_URL}"),
            },
            404 | 405 => Self::Fatal {
                code: "wrong_address".to_owned(),
                message: format!("no events are accepted there ({status}); {CHECK_URL}"),
            },
            401 => Self::Fatal {
                message: format!("{message} Check --project-key"),
                code,
            },
            _ => Self::Fatal { code, message },
        }
    }
}

fn with_advice_to_ask(message: &str) -> String {
    format!(
        "{message}\nAsk the operator for more, then run the same command again: it goes on where it stopped"
    )
}

/// Reads `Retry-After` in seconds, the only form that our server sends.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn read(status: u16, body: &str) -> RequestOutcome {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("7"));
        RequestOutcome::of_response(
            StatusCode::from_u16(status).unwrap(),
            &headers,
            body.as_bytes(),
        )
    }

    #[test]
    fn responses_have_the_outcomes_of_the_contract() {
        let refusal = r#"{"index":3,"code":"invalid_uuid","detail":"No.","attr":"batch[3].uuid"}"#;
        let accepted = |body: String| {
            let RequestOutcome::Accepted {
                refused,
                refused_count,
            } = read(200, &body)
            else {
                panic!("{body}");
            };
            (refused, refused_count)
        };
        assert_eq!(accepted(r#"{"status":"Ok"}"#.to_owned()), (vec![], 0));
        let (refused, count) = accepted(format!(
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
            RequestOutcome::Accepted {
                refused_count: 1,
                ..
            }
        ));
        let invalid = r#"{"code":"invalid_json","detail":"No."}"#;
        assert!(
            matches!(read(400, invalid), RequestOutcome::Unreadable { code, .. } if code == "invalid_json")
        );
        assert!(matches!(read(413, "{}"), RequestOutcome::TooLarge { .. }));
        let seven = Some(Duration::from_secs(7));
        let rate = r#"{"code":"migration_rate_exceeded"}"#;
        assert!(
            matches!(read(429, rate), RequestOutcome::Retry { after, is_rate_limited: true, .. } if after == seven)
        );
        let months = r#"{"code":"too_many_months"}"#;
        assert!(matches!(
            read(503, months),
            RequestOutcome::Retry {
                is_rate_limited: true,
                ..
            }
        ));
        for status in [408, 500, 502, 503, 504] {
            let outcome = read(status, "<html>");
            assert!(
                matches!(outcome, RequestOutcome::Retry { after, is_rate_limited: false, .. } if after == seven)
            );
        }
    }

    #[test]
    fn a_fatal_outcome_tells_the_user_what_to_do() {
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
            let RequestOutcome::Fatal { message, .. } = read(status, body) else {
                panic!("{status}");
            };
            assert!(message.contains(needle), "{message}");
        }
    }
}
