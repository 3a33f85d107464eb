//! Rendering of a handler's result as an HTTP response.

use crate::error::ApiError;
use crate::operation::Operation;
use crate::request::accept;
use crate::request::throttle::RateLimitStatus;
use crate::response::page_headers::PAGE_HEADERS;
use crate::response::stream::{BodyStream, STREAM_BYTES};
use crate::response::{ApiResponse, Coding};
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, SET_COOKIE, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use warp::http::Response as HttpResponse;
use warp::reply::{Reply, Response};

const RATE_LIMIT_LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const RATE_LIMIT_REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RATE_LIMIT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Content security policy of pages: a style and a script of ours, none of them inline.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
                           form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

/// A successful response with all of its metadata.
#[derive(Clone, Debug)]
pub(crate) struct Success {
    pub(crate) status: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) body: Bytes,
    /// Body that is streamed in the place of `body`.
    pub(crate) stream: Option<BodyStream>,
    /// `ETag` of the resource.
    pub(crate) tag: Option<String>,
    /// Coding of the body; `None` if there is no other.
    pub(crate) coding: Option<Coding>,
    /// Cookie to set or to remove.
    pub(crate) cookie: Option<HeaderValue>,
    /// True if this replays the response of an earlier request.
    pub(crate) is_replay: bool,
    /// True if the response must not be cached: it has a secret, or fields that its tag leaves out.
    pub(crate) is_uncopied: bool,
}

impl Success {
    pub(crate) fn of(operation: &Operation, response: ApiResponse) -> Self {
        Self {
            status: response.status.unwrap_or(operation.status),
            content_type: response.content_type,
            body: response.body,
            stream: response.stream,
            tag: response.tag,
            coding: response.coding,
            cookie: response.cookie,
            is_replay: false,
            is_uncopied: operation.is_stream
                || operation.is_never_replayed
                || !(operation.shown_once.is_empty() && operation.live_fields.is_empty()),
        }
    }

    /// Memory that the response takes until it is sent, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self.stream {
            Some(_) => STREAM_BYTES,
            None => self.body.len(),
        }
    }
}

/// Builds the HTTP response of a success or an error.
pub(crate) fn http_response(
    outcome: Result<Success, ApiError>,
    rate_limit: Option<RateLimitStatus>,
    problem: bool,
) -> Response {
    let mut response = match outcome {
        Ok(success) => succeeded(success),
        Err(error) => error.into_response(problem),
    };
    if let Some(rate_limit) = rate_limit {
        let headers = response.headers_mut();
        headers.insert(RATE_LIMIT_LIMIT, rate_limit.limit.into());
        headers.insert(RATE_LIMIT_REMAINING, rate_limit.remaining.into());
        headers.insert(RATE_LIMIT_RESET, rate_limit.reset_seconds.into());
    }
    response
}

fn succeeded(success: Success) -> Response {
    let has_body = !success.body.is_empty() || success.stream.is_some();
    let pieces = success.stream.as_ref().and_then(BodyStream::take);
    let mut response = match pieces {
        Some(pieces) => warp::reply::stream(pieces).into_response(),
        None => HttpResponse::new(success.body.into()),
    };
    *response.status_mut() = success.status;
    let headers = response.headers_mut();
    if has_body {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(success.content_type));
    }
    if let Some(stream) = success.stream {
        headers.extend(stream.headers);
        // The answer has texts of others.
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    if success.content_type.starts_with("text/html") {
        for (name, value) in [(CONTENT_SECURITY_POLICY, PAGE_POLICY)]
            .into_iter()
            .chain(PAGE_HEADERS)
        {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
    if let Some(cookie) = success.cookie {
        headers.insert(SET_COOKIE, cookie);
    }
    if success.coding.is_some() {
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    if success.coding == Some(Coding::Gzip) && has_body {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
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

/// Returns true if the client asks for errors as `application/problem+json`.
pub(crate) fn wants_problem(headers: &HeaderMap) -> bool {
    accept::names(headers, "application/problem+json")
}
