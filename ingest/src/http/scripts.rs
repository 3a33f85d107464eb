//! posthog-js for pages: the files that the HTML snippet loads, and those that these load.
//!
//! A path that names the version never changes; one that does not is asked for again after an hour.
//! Scripts of replay, surveys and the like are not here, as there is none of these.

use crate::request::route::Route;
use crate::response::{Content, HttpResponse};
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, ETAG, HeaderName, IF_NONE_MATCH, LINK, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use millrace_browser::{File, LICENSE};
use millrace_parse::{ApiError, ErrorType};

/// Caching of paths that name the version.
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// Caching of paths whose content changes with an upgrade.
const FOR_AN_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");
/// Headers that responses differ by; a cache must not give one page the response to another origin.
const VARIES_BY: HeaderValue = HeaderValue::from_static("Accept-Encoding, Origin");
const LICENSED: HeaderValue = HeaderValue::from_static("</static/LICENSE.txt>; rel=\"license\"");
/// Header that lets pages that isolate themselves load the script.
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");
const CROSS_ORIGIN: HeaderValue = HeaderValue::from_static("cross-origin");

/// Content coding of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Plain,
    Gzip,
    Brotli,
}

/// Response to a GET of a script.
pub fn script(route: Route, parts: &Parts) -> HttpResponse {
    let path = parts.uri.path();
    let path = path.strip_suffix('/').unwrap_or(path);
    let query = parts.uri.query().unwrap_or_default();
    let version = millrace_browser::version();
    let (name, is_versioned) = match route {
        Route::ArrayJs => ("array.js", false),
        _ => named(
            path.strip_prefix("/static/").unwrap_or_default(),
            query,
            version,
        ),
    };
    match millrace_browser::file(name) {
        Some(file) => file_response(file, is_versioned, &parts.headers),
        None => not_found(version),
    }
}

/// File that a path below `/static/` names, and true if it names the version that we have.
fn named<'a>(path: &'a str, query: &str, version: Option<&str>) -> (&'a str, bool) {
    if let Some((said, name)) = path.split_once('/') {
        // SDKs of other versions then ask without one.
        return if Some(said) == version {
            (name, true)
        } else {
            ("", false)
        };
    }
    let said = query.split('&').find_map(|pair| pair.strip_prefix("v="));
    (path, said.is_some() && said == version)
}

fn file_response(file: &'static File, is_versioned: bool, headers: &HeaderMap) -> HttpResponse {
    let coding = accepted(headers);
    let (body, suffix) = match coding {
        Coding::Plain => (file.plain, ""),
        Coding::Gzip => (file.gzip, "-gzip"),
        Coding::Brotli => (file.brotli, "-br"),
    };
    let tag = format!("\"{}{suffix}\"", file.hash);
    let content = match file.name {
        LICENSE => Content::Text,
        _ => Content::JavaScript,
    };
    let mut response = if is_known(headers, &tag) {
        HttpResponse::new(StatusCode::NOT_MODIFIED, Content::Empty, "")
    } else {
        HttpResponse::new(StatusCode::OK, content, body)
    };
    let kept = if is_versioned { FOR_EVER } else { FOR_AN_HOUR };
    response.headers = vec![
        (CACHE_CONTROL, kept),
        (VARY, VARIES_BY),
        (LINK, LICENSED),
        (CROSS_ORIGIN_RESOURCE_POLICY, CROSS_ORIGIN),
    ];
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers.push((ETAG, tag));
    }
    let coding = match coding {
        Coding::Plain => return response,
        Coding::Gzip => "gzip",
        Coding::Brotli => "br",
    };
    if response.status == StatusCode::OK {
        let coding = HeaderValue::from_static(coding);
        response.headers.push((CONTENT_ENCODING, coding));
    }
    response
}

/// Returns true if the client has the file: by `If-None-Match`, weakly, as proxies weaken the tags
/// of what they compress.
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter();
    let mut tags = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

/// Coding that the client prefers; brotli, which is the smallest, among equals.
fn accepted(headers: &HeaderMap) -> Coding {
    let (mut brotli, mut gzip, mut any) = (None, None, None);
    let values = headers.get_all(ACCEPT_ENCODING).iter();
    let items = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    for item in items {
        let (name, parameters) = item.split_once(';').unwrap_or((item, ""));
        let quality = parameters.trim().strip_prefix("q=");
        let quality = quality.map_or(Some(1.0), |quality| quality.parse::<f32>().ok());
        match name.trim() {
            "br" => brotli = quality,
            "gzip" | "x-gzip" => gzip = quality,
            "*" => any = quality,
            _ => {}
        }
    }
    let liked = |quality: Option<f32>| quality.or(any).unwrap_or_default();
    match (liked(brotli), liked(gzip)) {
        (brotli, gzip) if brotli > 0.0 && brotli >= gzip => Coding::Brotli,
        (_, gzip) if gzip > 0.0 => Coding::Gzip,
        _ => Coding::Plain,
    }
}

fn not_found(version: Option<&str>) -> HttpResponse {
    let detail = match version {
        Some(version) => format!(
            "posthog-js {version} is served without this file. Replay, surveys, product tours, conversations \
             and the toolbar are not offered; paths may name this version or none."
        ),
        None => "This Millrace was built without posthog-js. Build it with `make build`, or load \
                 posthog-js from npm in the page."
            .to_owned(),
    };
    HttpResponse::error(&ApiError::new(
        StatusCode::NOT_FOUND,
        ErrorType::InvalidRequest,
        "not_found",
        detail,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_coding_that_a_client_accepts_is_sent() {
        let table = [
            ("", Coding::Plain),
            ("gzip, deflate, br, zstd", Coding::Brotli),
            ("gzip, deflate", Coding::Gzip),
            ("br;q=0, gzip", Coding::Gzip),
            ("br;q=0.5, gzip;q=0.8", Coding::Gzip),
            ("gzip;q=0", Coding::Plain),
            ("*", Coding::Brotli),
            ("*;q=0", Coding::Plain),
            ("br;q=0,*", Coding::Gzip),
            ("identity", Coding::Plain),
            ("br;q=much", Coding::Plain),
        ];
        for (value, coding) in table {
            let value = (ACCEPT_ENCODING, HeaderValue::from_static(value));
            let headers = HeaderMap::from_iter([value]);
            assert_eq!(accepted(&headers), coding, "{headers:?}");
        }
    }

    #[test]
    fn a_path_names_a_file_and_may_name_its_version() {
        let table = [
            ("array.js", "", ("array.js", false)),
            ("array.js", "v=1.2.3", ("array.js", true)),
            ("array.js", "t=5&v=1.2.3", ("array.js", true)),
            ("array.js", "v=1.2.4", ("array.js", false)),
            ("1.2.3/array.js", "", ("array.js", true)),
            ("1.2.4/array.js", "", ("", false)),
            ("1.2.3/../array.js", "", ("../array.js", true)),
        ];
        for (path, query, expected) in table {
            assert_eq!(
                named(path, query, Some("1.2.3")),
                expected,
                "{path}?{query}"
            );
        }
        assert_eq!(named("array.js", "", None), ("array.js", false));
    }
}
