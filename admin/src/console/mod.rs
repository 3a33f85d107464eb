//! Pages of the console: `/`, the addresses of its screens, and the files that these load.
//!
//! All screens are one page, whose script reads the address. The page is asked for anew each time
//! and answered by its tag; other files have names that change with their content, and are kept for
//! ever. The policy allows the page's own scripts and styles, calls of this server, and events to
//! ingestion.

mod coding;

use crate::change::etag;
use crate::ingest_url::IngestUrl;
use crate::request::request_id;
use coding::Coding;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap,
    HeaderName, HeaderValue, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{Method, StatusCode};
use millrace_console::{ASSETS, File, PAGE};
use std::future::ready;
use url::Url;
use warp::path::FullPath;
use warp::reply::{Reply, Response};
use warp::{Filter, Rejection};

/// Page in the place of a console that was not built.
const NOT_BUILT: &str = include_str!("../../pages/no_console.html");
/// Caching of files whose names change with their content.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
/// Areas of screens: the first part of their addresses.
const AREAS: [&str; 4] = ["key", "operator", "projects", "organizations"];
const CROSS_ORIGIN_OPENER_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-opener-policy");

/// Filter of the console's addresses.
pub(crate) fn route(
    ingest_url: IngestUrl,
) -> impl Filter<Extract = (Response,), Error = Rejection> + Clone {
    warp::get()
        .or(warp::head())
        .unify()
        .and(warp::method())
        .and(warp::path::full())
        .and(warp::header::headers_cloned())
        .and_then(move |method: Method, path: FullPath, headers: HeaderMap| {
            let response = respond(&method, path.as_str(), &headers, &ingest_url);
            ready(response.ok_or_else(warp::reject::not_found))
        })
}

/// Builds the response, with the request's id as on all others; `None` for other addresses.
fn respond(
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    ingest_url: &IngestUrl,
) -> Option<Response> {
    let mut response = if is_screen(path) {
        page(headers, ingest_url)
    } else {
        asset(file_of(path)?, headers)
    };
    let request_id = request_id::of(headers);
    let span = tracing::error_span!("request", request_id, %method, route = "console");
    span.in_scope(|| tracing::debug!(status = response.status().as_u16(), "answered"));
    if let Ok(value) = request_id.parse() {
        let headers = response.headers_mut();
        headers.insert(request_id::X_REQUEST_ID, value);
    }
    Some(response)
}

/// Returns true for the address of a screen.
fn is_screen(path: &str) -> bool {
    let mut parts = path.split('/').skip(1);
    let area = parts.next().unwrap_or_default();
    path == "/" || AREAS.contains(&area)
}

/// File that a path names; the page is none, as it has other addresses.
fn file_of(path: &str) -> Option<&'static File> {
    let name = path.strip_prefix('/')?;
    millrace_console::file(name).filter(|file| file.name != PAGE)
}

/// The page of all screens.
fn page(headers: &HeaderMap, ingest_url: &IngestUrl) -> Response {
    let mut response = match millrace_console::file(PAGE) {
        Some(file) => file_response(file, headers, "no-cache"),
        None => not_built(),
    };
    let headers = response.headers_mut();
    if let Ok(policy) = policy(ingest_url.get()).parse() {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    let fixed = [
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CROSS_ORIGIN_OPENER_POLICY, "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A file that the page loads.
fn asset(file: &'static File, headers: &HeaderMap) -> Response {
    let kept = match file.name.starts_with(ASSETS) {
        true => FOR_EVER,
        false => "no-cache",
    };
    file_response(file, headers, kept)
}

fn file_response(file: &'static File, headers: &HeaderMap, kept: &'static str) -> Response {
    let coding = Coding::accepted(headers);
    let suffix = coding.name().unwrap_or_default();
    let tag = format!("\"{}{suffix}\"", file.hash);
    let is_known = etag::is_known(headers, &tag);
    let content: &'static [u8] = match is_known {
        true => &[],
        false => coding.content(file),
    };
    let mut response = content.into_response();
    let headers = response.headers_mut();
    let fixed = [
        (CONTENT_TYPE, media_type(file.name)),
        (CACHE_CONTROL, kept),
        (VARY, "Accept-Encoding"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(tag) = tag.parse() {
        headers.insert(ETAG, tag);
    }
    if is_known {
        headers.remove(CONTENT_TYPE);
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else if let Some(name) = coding.name() {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(name));
    }
    response
}

/// Page that says how to build the console.
fn not_built() -> Response {
    let mut response = warp::reply::html(NOT_BUILT).into_response();
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Content security policy of the page.
fn policy(ingest_url: Option<&str>) -> String {
    let ingest = ingest_url.and_then(|url| Url::parse(url).ok());
    let origin = ingest.map(|url| url.origin().ascii_serialization());
    let origin = origin
        .map(|origin| format!(" {origin}"))
        .unwrap_or_default();
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'{origin}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("md") => "text/plain; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{ACCEPT_ENCODING, IF_NONE_MATCH};

    static ASSET: File = File {
        name: "assets/index-1.js",
        hash: "0123456789abcdef",
        plain: b"plain",
        gzip: b"gzip",
        brotli: b"brotli",
    };

    #[test]
    fn addresses_of_screens_are_the_page_and_others_are_not() {
        let table = [
            ("/", true),
            ("/key", true),
            ("/sign-in", false),
            ("/projects/1/live", true),
            ("/organizations/a/members/", true),
            ("/operator", true),
            ("/project", false),
            ("/signup/token", false),
            ("/api/", false),
            ("/index.html", false),
            ("//projects", false),
        ];
        for (path, expected) in table {
            assert_eq!(is_screen(path), expected, "{path}");
        }
        assert!(file_of("/index.html").is_none());
    }

    #[test]
    fn a_file_is_sent_in_its_coding_and_once() {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip, br"));
        let sent = asset(&ASSET, &headers);
        assert_eq!(sent.status(), StatusCode::OK);
        assert_eq!(sent.headers()[CONTENT_ENCODING], "br");
        assert_eq!(sent.headers()[CACHE_CONTROL], FOR_EVER);
        let tag = sent.headers()[ETAG].clone();
        headers.insert(IF_NONE_MATCH, tag);
        let known = asset(&ASSET, &headers);
        assert_eq!(known.status(), StatusCode::NOT_MODIFIED);
        assert!(!known.headers().contains_key(CONTENT_ENCODING));
        headers.remove(ACCEPT_ENCODING);
        assert_eq!(asset(&ASSET, &headers).status(), StatusCode::OK);
    }

    #[test]
    fn the_policy_allows_nothing_inline_and_events_to_ingestion() {
        let table = [
            (None, "connect-src 'self';"),
            (
                Some("https://in.example.com/path"),
                "connect-src 'self' https://in.example.com;",
            ),
            (
                Some("http://127.0.0.1:8000"),
                "connect-src 'self' http://127.0.0.1:8000;",
            ),
            (Some("no address"), "connect-src 'self';"),
        ];
        for (url, expected) in table {
            let policy = policy(url);
            assert!(policy.contains(expected), "{policy}");
            assert!(!policy.contains("unsafe"), "{policy}");
        }
    }

    #[test]
    fn the_page_without_a_console_says_how_to_build_it() {
        let response = not_built();
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
        assert!(NOT_BUILT.contains("make build") && NOT_BUILT.contains("/api/docs/"));
        for part in ["<script", "<style", " style=", "<link"] {
            assert!(!NOT_BUILT.contains(part), "{part}");
        }
    }

    #[test]
    fn every_built_file_has_a_type_and_the_page_loads_what_is_there() {
        for file in millrace_console::files() {
            assert_ne!(
                media_type(file.name),
                "application/octet-stream",
                "{}",
                file.name
            );
        }
        let Some(page) = millrace_console::file(PAGE) else {
            return;
        };
        let text = String::from_utf8_lossy(page.plain);
        let names = text.split('"').filter(|part| part.starts_with("/assets/"));
        let mut count = 0;
        for name in names {
            assert!(file_of(name).is_some(), "{name}");
            count += 1;
        }
        assert!(count > 0, "{text}");
        assert!(
            !text.contains("<style") && !text.contains(" style="),
            "{text}"
        );
    }
}
