//! The page behind an invitation's link: `/signup/<token>`.
//!
//! One page for all tokens; its script takes the token from the address and calls
//! `/api/signup/<token>/`. As the address is a secret, the page loads nothing, runs only its own
//! script, is not cached, and sends no referrer.

use crate::request::request_id;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;
use warp::reply::{Reply, Response};
use warp::{Filter, Rejection};

const PAGE: &str = include_str!("../pages/signup.html");
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let (script, style) = (hash_of("script"), hash_of("style"));
    format!(
        "default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
});

/// Filter of `GET /signup/:token`.
pub(crate) fn route() -> impl Filter<Extract = (Response,), Error = Rejection> + Clone {
    warp::path!("signup" / String)
        .and(warp::get().or(warp::head()).unify())
        .and(warp::header::headers_cloned())
        .map(|_token, headers| respond(&headers))
}

/// Builds the response, with the request's id as on all others.
fn respond(headers: &HeaderMap) -> Response {
    let request_id = request_id::of(headers);
    let route = "/signup/{token}";
    let span = tracing::error_span!("request", request_id, method = "GET", route);
    span.in_scope(|| tracing::info!(status = 200, "answered"));
    let mut response = page();
    if let Ok(value) = request_id.parse() {
        let headers = response.headers_mut();
        headers.insert(request_id::X_REQUEST_ID, value);
    }
    response
}

/// The page, with headers that keep its address and the key on it secret.
fn page() -> Response {
    let mut response = warp::reply::html(PAGE).into_response();
    let headers = response.headers_mut();
    let fixed = [
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("x-robots-tag"), "noindex"),
        (CONTENT_TYPE, "text/html; charset=utf-8"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(policy) = HeaderValue::from_str(&POLICY) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// Hash by which the content security policy allows the page's only element of this name.
fn hash_of(element: &str) -> String {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let inner = PAGE
        .split_once(&open)
        .and_then(|(_, rest)| rest.split_once(&close));
    let inner = inner.map(|(inner, _)| inner).unwrap_or_default();
    format!("sha256-{}", STANDARD.encode(Sha256::digest(inner)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_loads_nothing_and_may_run_only_its_own_script() {
        for element in ["script", "style"] {
            let opened = PAGE.matches(&format!("<{element}")).count();
            assert_eq!(opened, 1, "one {element}, without attributes");
            let hash = hash_of(element);
            assert_ne!(
                hash,
                format!("sha256-{}", STANDARD.encode(Sha256::digest("")))
            );
            assert!(POLICY.contains(&hash), "{element}");
        }
        for foreign in [
            "http:",
            "https:",
            "src=",
            "<link",
            "@import",
            "url(",
            " style=",
            " onclick=",
        ] {
            assert!(!PAGE.contains(foreign), "{foreign}");
        }
        let headers = page().headers().clone();
        assert_eq!(headers[REFERRER_POLICY], "no-referrer");
        assert_eq!(headers[CACHE_CONTROL], "no-store");
        assert_eq!(headers[CONTENT_SECURITY_POLICY], POLICY.as_str());
    }
}
