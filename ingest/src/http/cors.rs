//! CORS preflights: a browser asks before it sends JSON or `Content-Encoding` from another origin.

use crate::request::head::RequestHead;
use crate::response::HttpResponse;
use http::HeaderValue;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_MAX_AGE, VARY,
};

/// Time for which a browser may remember a preflight, in seconds; Chrome ignores more.
const MAX_AGE_SECONDS: &str = "7200";

/// Response to `OPTIONS`, preflight or not. The origin is mirrored as on every response.
pub fn preflight(head: &RequestHead<&HeaderValue>, allow: &'static str) -> HttpResponse {
    let mut response = HttpResponse::empty();
    response.allow = Some(allow);
    if head.origin.is_none() {
        return response;
    }
    response.headers = vec![
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
        response
            .headers
            .push((ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone()));
    }
    response
}
