//! The page on which people sign in: `/sign-in`, with the token of a link behind `#`.
//!
//! What follows the `#` stays in the browser until its script calls `/api/sign_in/`, which a person
//! has to confirm: programs that look at links in mails do not use them up.

use crate::static_page::StaticPage;
use std::sync::LazyLock;
use warp::reply::Response;
use warp::{Filter, Rejection};

/// Path of the page, below the address of the API.
pub(crate) const PATH: &str = "/sign-in";

static PAGE: LazyLock<StaticPage> =
    LazyLock::new(|| StaticPage::new(PATH, include_str!("../pages/sign_in.html")));

/// Filter of `GET /sign-in`.
pub(crate) fn route() -> impl Filter<Extract = (Response,), Error = Rejection> + Clone {
    warp::path!("sign-in")
        .and(warp::get().or(warp::head()).unify())
        .and(warp::header::headers_cloned())
        .map(|headers| PAGE.respond(&headers))
}
