//! The API as one warp filter.
//!
//! warp parses connection and request; [`middleware`] finds the operation and runs the request
//! through authorization, limits and versions.

use crate::app::{App, TableError};
use crate::console;
use crate::docs_assets;
use crate::front_page;
use crate::middleware::{self, RequestHead};
use crate::request::origin::Peer;
use crate::services::Services;
use crate::sign_in_page;
use crate::signup_page;
use http::{HeaderMap, Method, Uri};
use std::convert::Infallible;
use std::sync::Arc;
use warp::path::FullPath;
use warp::reply::Response;
use warp::{Filter, Rejection, Reply};

/// Builds the whole API; requests without a route are answered 404.
///
/// # Errors
///
/// The table of operations contradicts itself.
pub fn routes(
    services: Services,
) -> Result<
    impl Filter<Extract = (impl Reply + use<>,), Error = Infallible> + Clone + use<>,
    TableError,
> {
    let ingest_url = services.ingest_url.clone();
    let app = Arc::new(App::new(services)?);
    let filter = head()
        .and(warp::body::stream())
        .then(move |head, body| {
            let app = app.clone();
            async move { middleware::handle(&app, head, body).await }
        })
        .recover(no_rejection)
        .unify();
    let pages = signup_page::route().or(sign_in_page::route()).unify();
    let pages = pages.or(front_page::route(ingest_url.clone())).unify();
    let pages = pages.or(docs_assets::route()).unify();
    let pages = pages.or(console::route(ingest_url)).unify();
    Ok(pages.or(filter).unify())
}

/// Filter that extracts the head of a request; never rejects.
fn head() -> impl Filter<Extract = (RequestHead,), Error = Infallible> + Clone {
    warp::any()
        .and(warp::method())
        .and(full_uri())
        .and(warp::header::headers_cloned())
        .and(warp::ext::optional::<Peer>())
        .map(
            |method: Method, uri: Uri, headers: HeaderMap, peer: Option<Peer>| RequestHead {
                method,
                uri,
                headers,
                peer,
            },
        )
}

/// Filter that extracts path and query. Both were parsed once already, so they parse again.
fn full_uri() -> impl Filter<Extract = (Uri,), Error = Infallible> + Clone {
    let query = warp::query::raw().or(warp::any().map(String::new)).unify();
    warp::path::full()
        .and(query)
        .map(|path: FullPath, query: String| {
            let uri = if query.is_empty() {
                path.as_str().to_owned()
            } else {
                format!("{}?{query}", path.as_str())
            };
            uri.parse().unwrap_or_default()
        })
}

/// Handler for rejections, which never happen here; warp's types require it.
async fn no_rejection(_: Rejection) -> Result<Response, Infallible> {
    Ok(crate::error::ApiError::not_found().into_response(false))
}
