//! Style and script of `/api/docs/`. Their addresses have their hashes, so they never change.

use crate::openapi::page::Assets;
use crate::request::request_id;
use crate::response::Coding;
use crate::response::coded::CodedBody;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use std::sync::LazyLock;
use warp::http::Response as HttpResponse;
use warp::reply::Response;
use warp::{Filter, Rejection};

static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let text = include_str!("../pages/docs.css");
    Asset::of("css", "text/css; charset=utf-8", text)
});
static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let text = include_str!("../pages/docs.js");
    Asset::of("js", "text/javascript; charset=utf-8", text)
});

/// File beside the page.
struct Asset {
    /// Last segment of the address.
    name: String,
    address: String,
    body: CodedBody,
}

impl Asset {
    fn of(extension: &str, content_type: &'static str, text: &'static str) -> Self {
        let body = CodedBody::new(content_type, Bytes::from_static(text.as_bytes()));
        let name = format!("docs-{}.{extension}", body.hash());
        Self {
            address: format!("/api/docs/{name}"),
            name,
            body,
        }
    }
}

/// Addresses of style and script.
pub(crate) fn addresses() -> Assets<'static> {
    Assets {
        style: &STYLE.address,
        script: &SCRIPT.address,
    }
}

/// Filter of `GET /api/docs/:asset`; rejects names that are none.
pub(crate) fn route() -> impl Filter<Extract = (Response,), Error = Rejection> + Clone {
    warp::path!("api" / "docs" / String)
        .and(warp::get().or(warp::head()).unify())
        .and(warp::header::headers_cloned())
        .and_then(|name: String, headers: HeaderMap| async move {
            respond(&name, &headers).ok_or_else(warp::reject::not_found)
        })
}

/// Builds the response, with the request's id as on all others; `None` if there is no such file.
fn respond(name: &str, headers: &HeaderMap) -> Option<Response> {
    let asset = [&STYLE, &SCRIPT]
        .into_iter()
        .find(|asset| asset.name == name)?;
    let request_id = request_id::of(headers);
    let route = "/api/docs/{asset}";
    let span = tracing::error_span!("request", request_id, method = "GET", route);
    span.in_scope(|| tracing::info!(status = 200, "answered"));
    let body = asset.body.response(headers);
    let mut response = HttpResponse::new(body.body.into());
    let headers = response.headers_mut();
    let fixed: [(HeaderName, &'static str); 4] = [
        (CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (CONTENT_TYPE, body.content_type),
        (VARY, "Accept-Encoding"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if body.coding == Some(Coding::Gzip) {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if let Ok(value) = request_id.parse() {
        headers.insert(request_id::X_REQUEST_ID, value);
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn style_and_script_are_found_by_their_hashes_and_load_nothing() {
        for asset in [&*STYLE, &*SCRIPT] {
            let response = respond(&asset.name, &HeaderMap::new()).unwrap();
            assert_eq!(response.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
            assert!(asset.address.ends_with(&asset.name));
        }
        assert!(respond("docs.css", &HeaderMap::new()).is_none());
        for text in [
            include_str!("../pages/docs.css"),
            include_str!("../pages/docs.js"),
        ] {
            for needle in ["@import", "url(", "http:", "innerHTML", "eval("] {
                assert!(!text.contains(needle), "{needle}");
            }
        }
    }
}
