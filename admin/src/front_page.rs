//! Front page of the API, `/api/`: redirects browsers to the page of the API, and tells programs,
//! the console among them, where everything is.

use crate::ingest_url::IngestUrl;
use crate::request::{accept, request_id};
use http::header::{HeaderMap, HeaderValue, LOCATION, VARY};
use http::{Method, StatusCode};
use serde_json::json;
use warp::reply::{Reply, Response};
use warp::{Filter, Rejection};

const DOCS: &str = "/api/docs/";

/// Filter of `GET /api/`.
pub(crate) fn route(
    ingest_url: IngestUrl,
) -> impl Filter<Extract = (Response,), Error = Rejection> + Clone {
    warp::path!("api")
        .and(warp::get().or(warp::head()).unify())
        .and(warp::method())
        .and(warp::header::headers_cloned())
        .map(move |method, headers| respond(&method, &headers, &ingest_url))
}

/// Builds the response, with the request's id as on all others.
fn respond(method: &Method, headers: &HeaderMap, ingest_url: &IngestUrl) -> Response {
    let request_id = request_id::of(headers);
    let status = match accept::names(headers, "text/html") {
        true => StatusCode::FOUND,
        false => StatusCode::OK,
    };
    let span = tracing::error_span!("request", request_id, %method, route = "/api/");
    span.in_scope(|| tracing::info!(status = status.as_u16(), "answered"));
    let links = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "console": "/",
        "docs": DOCS,
        "schema": "/api/schema/",
        "ingest_url": ingest_url.get(),
    });
    let mut response = warp::reply::json(&links).into_response();
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    if status == StatusCode::FOUND {
        headers.insert(LOCATION, HeaderValue::from_static(DOCS));
    }
    if let Ok(value) = request_id.parse() {
        headers.insert(request_id::X_REQUEST_ID, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::ACCEPT;

    #[test]
    fn browsers_are_sent_to_the_page_and_programs_get_the_addresses() {
        let url = IngestUrl::default();
        url.set("https://in.example.com");
        let table = [
            (None, StatusCode::OK),
            (Some("application/json"), StatusCode::OK),
            (Some("text/html,application/xml;q=0.9"), StatusCode::FOUND),
        ];
        for (accept, status) in table {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(ACCEPT, HeaderValue::from_static(accept));
            }
            let response = respond(&Method::GET, &headers, &url);
            assert_eq!(response.status(), status, "{accept:?}");
            let leads_on = response.headers().contains_key(LOCATION);
            assert_eq!(leads_on, status == StatusCode::FOUND, "{accept:?}");
        }
    }
}
