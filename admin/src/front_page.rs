//! The front page, `/`: leads whoever looks at the port with a browser to the page of the API, and says
//! to programs where that and the document are.

use crate::request::request_id;
use http::header::{HeaderMap, HeaderValue, LOCATION};
use http::{Method, StatusCode};
use serde_json::json;
use warp::reply::{Reply, Response};
use warp::{Filter, Rejection};

const DOCS: &str = "/api/docs/";

/// GET /
pub(crate) fn route() -> impl Filter<Extract = (Response,), Error = Rejection> + Clone {
    warp::path::end()
        .and(warp::get().or(warp::head()).unify())
        .and(warp::method())
        .and(warp::header::headers_cloned())
        .map(|method, headers| named(&method, &headers))
}

/// The answer under the request's name, as all others are.
fn named(method: &Method, headers: &HeaderMap) -> Response {
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
