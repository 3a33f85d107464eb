//! A page of the program: one document with its own script and style, which calls the API.
//!
//! It loads nothing, runs only its own script, is shown within no other page, is not cached, and
//! sends no referrer: its address may have a token.

use crate::request::request_id;
use crate::response::page_headers::PAGE_HEADERS;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue};
use sha2::{Digest, Sha256};
use warp::reply::{Reply, Response};

/// A page with its content security policy.
pub(crate) struct StaticPage {
    /// Template of the page's path, for the log.
    route: &'static str,
    html: &'static str,
    policy: String,
}

impl StaticPage {
    /// Page of a document with one `script` and one `style`, without attributes.
    pub(crate) fn new(route: &'static str, html: &'static str) -> Self {
        let (script, style) = (hash_of(html, "script"), hash_of(html, "style"));
        let policy = format!(
            "default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        Self {
            route,
            html,
            policy,
        }
    }

    /// Builds the response to a request with these headers, with the request's id as on all others.
    pub(crate) fn respond(&self, headers: &HeaderMap) -> Response {
        let request_id = request_id::of(headers);
        let span = tracing::error_span!("request", request_id, method = "GET", route = self.route);
        span.in_scope(|| tracing::info!(status = 200, "answered"));
        let mut response = self.response();
        if let Ok(value) = request_id.parse() {
            let headers = response.headers_mut();
            headers.insert(request_id::X_REQUEST_ID, value);
        }
        response
    }

    fn response(&self) -> Response {
        let mut response = warp::reply::html(self.html).into_response();
        let headers = response.headers_mut();
        let own = [
            (CACHE_CONTROL, "no-store"),
            (HeaderName::from_static("x-robots-tag"), "noindex"),
            (CONTENT_TYPE, "text/html; charset=utf-8"),
        ];
        for (name, value) in own.into_iter().chain(PAGE_HEADERS) {
            headers.insert(name, HeaderValue::from_static(value));
        }
        if let Ok(policy) = HeaderValue::from_str(&self.policy) {
            headers.insert(CONTENT_SECURITY_POLICY, policy);
        }
        response
    }
}

/// Hash by which the content security policy allows the page's only element of this name.
fn hash_of(html: &str, element: &str) -> String {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let inner = html
        .split_once(&open)
        .and_then(|(_, rest)| rest.split_once(&close));
    let inner = inner.map(|(inner, _)| inner).unwrap_or_default();
    format!("sha256-{}", STANDARD.encode(Sha256::digest(inner)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: [&str; 2] = [
        include_str!("../pages/signup.html"),
        include_str!("../pages/sign_in.html"),
    ];

    #[test]
    fn pages_load_nothing_and_may_run_only_their_own_script() {
        for html in PAGES {
            let page = StaticPage::new("/page", html);
            for element in ["script", "style"] {
                let opened = html.matches(&format!("<{element}")).count();
                assert_eq!(opened, 1, "one {element}, without attributes");
                let hash = hash_of(html, element);
                let empty = STANDARD.encode(Sha256::digest(""));
                assert_ne!(hash, format!("sha256-{empty}"));
                assert!(page.policy.contains(&hash), "{element}");
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
                assert!(!html.contains(foreign), "{foreign}");
            }
            let headers = page.response().headers().clone();
            assert_eq!(headers[CACHE_CONTROL], "no-store");
            assert_eq!(headers[CONTENT_SECURITY_POLICY], page.policy.as_str());
            for (name, value) in PAGE_HEADERS {
                assert_eq!(headers[&name], value, "{name}");
            }
        }
    }
}
