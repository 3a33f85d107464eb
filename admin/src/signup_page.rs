//! The page behind an invitation's link: `/signup/<token>`.
//!
//! One page for all tokens; its script takes the token from the address and calls
//! `/api/signup/<token>/`.

use crate::static_page::StaticPage;
use std::sync::LazyLock;
use warp::reply::Response;
use warp::{Filter, Rejection};

static PAGE: LazyLock<StaticPage> =
    LazyLock::new(|| StaticPage::new("/signup/{token}", include_str!("../pages/signup.html")));

/// Filter of `GET /signup/:token`.
pub(crate) fn route() -> impl Filter<Extract = (Response,), Error = Rejection> + Clone {
    warp::path!("signup" / String)
        .and(warp::get().or(warp::head()).unify())
        .and(warp::header::headers_cloned())
        .map(|_token, headers| PAGE.respond(&headers))
}
