//! All routes.

use crate::error::ApiError;
use crate::routes::{organizations, projects};
use millrace_catalog::Catalog;
use std::convert::Infallible;
use warp::reply::Response;
use warp::{Filter, Rejection, Reply};

/// The whole API over a catalog; what has no route is answered 404.
pub fn routes(
    catalog: Catalog,
) -> impl Filter<Extract = (impl Reply + use<>,), Error = Infallible> + Clone + use<> {
    organizations::routes(catalog.clone())
        .or(projects::routes(catalog))
        .unify()
        .recover(no_such_route)
        .unify()
}

/// The only rejection that there can be.
async fn no_such_route(_: Rejection) -> Result<Response, Infallible> {
    Ok(ApiError::not_found().into_response())
}
