//! Responses: a status, a body of known length, and the headers that every response has.
//!
//! hyper writes head and body in one call when the body is there at once and of known length;
//! posthog-node opens a connection per request where they come apart.

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS,
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, RETRY_AFTER, VARY,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use millrace_parse::{ApiError, ErrorType};
use serde::Serialize;
use uuid::Uuid;

/// Bytes from which on a body gives its spare capacity back, as it may wait for long.
const LONG_BYTES_MIN: usize = 64 << 10;
/// Header with our id of the request.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const JAVASCRIPT: HeaderValue = HeaderValue::from_static("application/javascript; charset=utf-8");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Content type of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// No body, and no `Content-Type`.
    Empty,
    /// JSON.
    Json,
    /// A script.
    JavaScript,
    /// Text for people.
    Text,
}

/// Response before it has the headers that all responses have.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    /// Status of the response.
    pub status: StatusCode,
    /// Content type of the body.
    pub content: Content,
    /// Body of the response.
    pub body: Bytes,
    /// Value of `Allow`.
    pub allow: Option<&'static str>,
    /// Value of `Retry-After`, in seconds.
    pub retry_after_seconds: Option<u32>,
    /// True if the connection cannot be used again.
    pub close: bool,
    /// Further headers, for preflights and caches.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl HttpResponse {
    /// Builds a response with a body.
    pub fn new(status: StatusCode, content: Content, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            content,
            body: body.into(),
            allow: None,
            retry_after_seconds: None,
            close: false,
            headers: Vec::new(),
        }
    }

    /// Builds a 200 with JSON that never changes.
    pub fn ok_static(body: &'static str) -> Self {
        Self::new(
            StatusCode::OK,
            Content::Json,
            Bytes::from_static(body.as_bytes()),
        )
    }

    /// Builds a response with a value as JSON.
    pub fn json(status: StatusCode, body: &impl Serialize) -> Self {
        let mut body = serde_json::to_vec(body).unwrap_or_default();
        if body.len() > LONG_BYTES_MIN {
            body.shrink_to_fit();
        }
        Self::new(status, Content::Json, body)
    }

    /// Builds a 204.
    pub fn empty() -> Self {
        Self::new(StatusCode::NO_CONTENT, Content::Empty, Bytes::new())
    }

    /// Builds an error response with the body that all errors of the product have.
    pub fn error(error: &ApiError) -> Self {
        let mut response = Self::json(error.status, error);
        response.retry_after_seconds = error.retry_after_seconds;
        response
    }

    /// Builds an error response of the per-event protocol: the usual keys, and the two its clients
    /// read.
    pub fn error_v1(error: &ApiError) -> Self {
        #[derive(Serialize)]
        struct V1<'a> {
            #[serde(flatten)]
            error: &'a ApiError,
            #[serde(rename = "error")]
            tag: &'static str,
            error_description: &'a str,
        }
        let body = V1 {
            error,
            tag: error.code,
            error_description: &error.detail,
        };
        let mut response = Self::json(error.status, &body);
        response.retry_after_seconds = error.retry_after_seconds;
        response
    }

    /// Builds a 404.
    pub fn not_found() -> Self {
        Self::error(&ApiError::new(
            StatusCode::NOT_FOUND,
            ErrorType::InvalidRequest,
            "not_found",
            "There is nothing at this path. Send events to /batch/.",
        ))
    }

    /// Builds a 405 with the methods that are allowed, worded for the per-event protocol if `v1`.
    pub fn method_not_allowed(allow: &'static str, v1: bool) -> Self {
        let error = ApiError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            ErrorType::InvalidRequest,
            "method_not_allowed",
            format!("This path takes {allow}."),
        );
        let mut response = if v1 {
            Self::error_v1(&error)
        } else {
            Self::error(&error)
        };
        response.allow = Some(allow);
        response
    }

    /// Converts the response to hyper's, with the headers that all responses have.
    pub fn into_response(
        self,
        origin: Option<&HeaderValue>,
        request_id: Uuid,
    ) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.reserve(8);
        match self.content {
            Content::Empty => None,
            Content::Json => headers.insert(CONTENT_TYPE, JSON),
            Content::JavaScript => headers.insert(CONTENT_TYPE, JAVASCRIPT),
            Content::Text => headers.insert(CONTENT_TYPE, TEXT),
        };
        let mut text = Uuid::encode_buffer();
        let request_id = request_id.hyphenated().encode_lower(&mut text);
        if let Ok(value) = HeaderValue::from_str(request_id) {
            headers.insert(X_REQUEST_ID, value);
        }
        if let Some(origin) = origin {
            allow_origin(headers, origin.clone());
        }
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        headers.extend(self.headers);
        response
    }

    /// Forbids caching: the state in a health check is old at once.
    pub fn never_cached(mut self) -> Self {
        self.headers
            .push((CACHE_CONTROL, HeaderValue::from_static("no-store")));
        self
    }
}

/// Lets any page read the response, with cookies too: they mean nothing here. A page cannot see
/// `Retry-After` unless it is exposed.
fn allow_origin(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(
        ACCESS_CONTROL_ALLOW_CREDENTIALS,
        HeaderValue::from_static("true"),
    );
    headers.insert(
        ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("Retry-After, X-Request-Id"),
    );
    headers.insert(VARY, HeaderValue::from_static("Origin"));
}
