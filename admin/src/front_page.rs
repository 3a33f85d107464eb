//! Front page, `/`: redirects browsers to the page of the API, and links the page and the
//! document for programs.

use crate::request::request_id;
use http::header::{HeaderMap, HeaderValue, LOCATION};
use http::{Method, StatusCode};
use serde_json::json;
use warp::reply::{Reply, Response};
use warp::{Filter, Rejection};

const DOCS: &str = "/api/docs/";

/// Filter of `GET /`.
pub(crate) fn route() -> impl Filter<Extract = (Response,), Error = Rejection> + Clone {
    warp::path::end()
        .and(warp::get().or(warp::head()).unify())
        .and(warp::method())
        .and(warp::header::headers_cloned())
        .map(|method, headers| respond(&method, &headers))
}

/// Builds the response, with the request's id as on all others.
fn respond(method: &Method, headers: &HeaderMap) -> Response {
    let request_id = request_id::of(headers);
    let span = tracing::error_span!("request", request_id, %method, route = "/");
    span.in_scope(|| tracing::info!(status = 302, "answered"));
    let links = json!({ "docs": DOCS, "schema": "/api/schema/" });
    let mut response = warp::reply::json(&links).into_response();
    *response.status_mut() = StatusCode::FOUND;
    let headers = response.headers_mut();
    headers.insert(LOCATION, HeaderValue::from_static(DOCS));
    if let Ok(value) = request_id.parse() {
        headers.insert(request_id::X_REQUEST_ID, value);
    }
    response
}
