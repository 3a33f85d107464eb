//! Preflights: a browser asks before it sends JSON or `Content-Encoding` from another origin.

use super::answer::Answer;
use super::head::Head;
use http::HeaderValue;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_MAX_AGE, VARY,
};

/// How long a browser may remember, in seconds; more is ignored by Chrome.
const MAX_AGE_SECONDS: &str = "7200";

/// The answer to `OPTIONS`, preflight or not. The origin is mirrored as on every answer.
pub fn preflight(head: &Head<'_>, allow: &'static str) -> Answer {
    let mut answer = Answer::empty();
    answer.allow = Some(allow);
    if head.origin.is_none() {
        return answer;
    }
    answer.headers = vec![
        (
            ACCESS_CONTROL_ALLOW_METHODS,
            HeaderValue::from_static(allow),
        ),
        (
            ACCESS_CONTROL_MAX_AGE,
            HeaderValue::from_static(MAX_AGE_SECONDS),
        ),
        (
            VARY,
            HeaderValue::from_static("Origin, Access-Control-Request-Headers"),
        ),
    ];
    if let Some(wanted) = head.requested_headers {
        answer
            .headers
            .push((ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone()));
    }
    answer
}
