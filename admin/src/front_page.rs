//! Front pages, `/` and `/api/`: they lead browsers to the page of the API, and tell programs where
//! page and document are.

use crate::request::{accept, request_id};
use http::header::{HeaderMap, HeaderValue, LOCATION, VARY};
use http::{Method, StatusCode};
use serde_json::json;
use warp::reply::{Reply, Response};
use warp::{Filter, Rejection};

const DOCS: &str = "/api/docs/";

/// Filter of `GET /` and `GET /api/`.
pub(crate) fn route() -> impl Filter<Extract = (Response,), Error = Rejection> + Clone {
    let root = warp::path::end().map(|| "/");
    let api = warp::path!("api").map(|| "/api/");
    root.or(api)
        .unify()
        .and(warp::get().or(warp::head()).unify())
        .and(warp::method())
        .and(warp::header::headers_cloned())
        .map(|route, method, headers| respond(route, &method, &headers))
}

/// Builds the response, with the request's id as on all others.
fn respond(route: &'static str, method: &Method, headers: &HeaderMap) -> Response {
    let is_browser = accept::names(headers, "text/html");
    let status = match is_browser {
        true => StatusCode::FOUND,
        false => StatusCode::OK,
    };
    let request_id = request_id::of(headers);
    let span = tracing::error_span!("request", request_id, %method, route);
    span.in_scope(|| tracing::info!(status = status.as_u16(), "answered"));
    let links = json!({ "docs": DOCS, "schema": "/api/schema/" });
    let mut response = warp::reply::json(&links).into_response();
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if is_browser {
        headers.insert(LOCATION, HeaderValue::from_static(DOCS));
    }
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(value) = request_id.parse() {
        headers.insert(request_id::X_REQUEST_ID, value);
    }
    response
}
