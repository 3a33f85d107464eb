//! From an outcome to the bytes that are sent.

use crate::answer::Answer;
use crate::error::ApiError;
use crate::operation::Operation;
use crate::request::throttle::Allowance;
use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use warp::http::Response as HttpResponse;
use warp::reply::Response;

const RATE_LIMIT_LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const RATE_LIMIT_REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RATE_LIMIT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Pages bring their style along and nothing else.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; \
                           frame-ancestors 'none'; base-uri 'none'";

/// A request that went well.
#[derive(Clone, Debug)]
pub(crate) struct Success {
    pub(crate) status: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) body: Bytes,
    /// The version of the resource.
    pub(crate) tag: Option<String>,
    /// Whether it is the answer of an earlier request.
    pub(crate) is_replay: bool,
    /// Whether nobody may keep a copy: there is a secret in it, or what its tag leaves out.
    pub(crate) is_uncopied: bool,
}

impl Success {
    pub(crate) fn of(operation: &Operation, answer: Answer) -> Self {
        Self {
            status: answer.status.unwrap_or(operation.status),
            content_type: answer.content_type,
            body: answer.body,
            tag: answer.tag,
            is_replay: false,
            is_uncopied: !(operation.shown_once.is_empty() && operation.live_fields.is_empty()),
        }
    }
}

/// The answer to send.
pub(crate) fn of(
    outcome: Result<Success, ApiError>,
    allowance: Option<Allowance>,
    problem: bool,
) -> Response {
    let mut response = match outcome {
        Ok(success) => succeeded(success),
        Err(error) => error.into_answer(problem),
    };
    if let Some(allowance) = allowance {
        let headers = response.headers_mut();
        headers.insert(RATE_LIMIT_LIMIT, allowance.limit.into());
        headers.insert(RATE_LIMIT_REMAINING, allowance.remaining.into());
        headers.insert(RATE_LIMIT_RESET, allowance.reset_seconds.into());
    }
    response
}

fn succeeded(success: Success) -> Response {
    let has_body = !success.body.is_empty();
    let mut response = HttpResponse::new(success.body.into());
    *response.status_mut() = success.status;
    let headers = response.headers_mut();
    if has_body {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(success.content_type));
    }
    if success.content_type.starts_with("text/html") {
        headers.insert(
            CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(PAGE_POLICY),
        );
    }
    let caching = if success.is_uncopied {
        "no-store"
    } else {
        "private, no-cache"
    };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    if let Some(tag) = success.tag
        && let Ok(tag) = HeaderValue::from_str(&tag)
    {
        headers.insert(ETAG, tag);
    }
    if success.is_replay {
        headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// Whether the client asks for errors as `application/problem+json`.
pub(crate) fn wants_problem(headers: &HeaderMap) -> bool {
    let texts = headers.get_all(ACCEPT).into_iter();
    let mut types = texts
        .filter_map(|text| text.to_str().ok())
        .flat_map(|text| text.split(','));
    types.any(|accepted| {
        let mut parts = accepted.split(';').map(str::trim);
        let named = parts.next().unwrap_or_default();
        let refused = parts.any(|part| part.trim_end_matches(['0', '.']) == "q=");
        named.eq_ignore_ascii_case("application/problem+json") && !refused
    })
}
