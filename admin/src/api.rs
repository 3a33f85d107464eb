//! What every handler is given.

use crate::error::ApiError;
use http::header::HOST;
use http::uri::Uri;
use http::{HeaderMap, Method};
use millrace_catalog::Catalog;
use std::convert::Infallible;
use warp::reply::Response;
use warp::{Filter, Reply, reply};

/// One request, without its body.
pub(crate) struct Request {
    /// Where everything is kept.
    pub(crate) catalog: Catalog,
    /// `HEAD` counts as `GET`; hyper sends no body for it.
    pub(crate) method: Method,
    /// Path and query, as sent.
    pub(crate) uri: Uri,
    /// As sent.
    pub(crate) headers: HeaderMap,
}

impl Request {
    /// Lets reading pass.
    ///
    /// # Errors
    ///
    /// 405 for every other method.
    pub(crate) fn must_read(&self) -> Result<(), ApiError> {
        if self.method == Method::GET {
            Ok(())
        } else {
            Err(ApiError::method_not_allowed("GET, HEAD"))
        }
    }

    /// Where the client found us, without a slash at the end.
    pub(crate) fn base_url(&self) -> String {
        let host = self.headers.get(HOST).and_then(|host| host.to_str().ok());
        format!("http://{}", host.unwrap_or("localhost"))
    }
}

/// Takes the request apart; never rejects.
pub(crate) fn request(
    catalog: Catalog,
) -> impl Filter<Extract = (Request,), Error = Infallible> + Clone {
    warp::any()
        .and(warp::method())
        .and(full_uri())
        .and(warp::header::headers_cloned())
        .map(move |method: Method, uri, headers| Request {
            catalog: catalog.clone(),
            method: if method == Method::HEAD {
                Method::GET
            } else {
                method
            },
            uri,
            headers,
        })
}

/// Path and query. Both were parsed once already, so they parse again.
fn full_uri() -> impl Filter<Extract = (Uri,), Error = Infallible> + Clone {
    let query = warp::query::raw().or(warp::any().map(String::new)).unify();
    warp::path::full()
        .and(query)
        .map(|path: warp::path::FullPath, query: String| {
            let uri = if query.is_empty() {
                path.as_str().to_owned()
            } else {
                format!("{}?{query}", path.as_str())
            };
            uri.parse().unwrap_or_default()
        })
}

/// A handler's outcome as a reply: JSON with 200, or the error.
pub(crate) fn answer<T: serde::Serialize>(outcome: Result<T, ApiError>) -> Response {
    match outcome {
        Ok(body) => reply::json(&body).into_response(),
        Err(error) => error.into_response(),
    }
}
