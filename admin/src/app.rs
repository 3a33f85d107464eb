//! The whole API: its operations, the state they share, and warp's part in it.
//!
//! warp takes connection and request apart; which operation is meant, and the stages on the way
//! to it, are [`stages`]'s.

use crate::answer::budget::AnswerBudget;
use crate::answer::turns::Turns;
use crate::change::lock::ChangeLocks;
use crate::front_page;
use crate::openapi;
use crate::request::origin::Peer;
use crate::request::throttle::Throttle;
use crate::router::Router;
use crate::routes::documentation::Published;
use crate::services::Services;
use crate::signup_page;
use crate::stages::{self, Head};
use http::{HeaderMap, Method, Uri};
use std::convert::Infallible;
use std::sync::{Arc, LazyLock};
use warp::path::FullPath;
use warp::reply::Response;
use warp::{Filter, Rejection, Reply};

/// What requests share.
pub(crate) struct App {
    pub(crate) services: Arc<Services>,
    pub(crate) router: Arc<Router>,
    pub(crate) throttle: Throttle,
    pub(crate) locks: ChangeLocks,
    pub(crate) answers: AnswerBudget,
    pub(crate) turns: Turns,
}

/// The table of operations contradicts itself; never so in a release, as a test builds it.
#[derive(Clone, Debug)]
pub struct TableError(String);

impl std::fmt::Display for TableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the table of operations cannot be used: {}", self.0)
    }
}

impl std::error::Error for TableError {}

/// The table as a router, with its document: the same for every instance, so that tests, which have
/// hundreds, compile its schemas once.
static ROUTER: LazyLock<Result<Arc<Router>, TableError>> = LazyLock::new(|| {
    let published = Arc::new(Published::default());
    let table = crate::routes::operations(&published);
    let router = Router::new(table).map_err(TableError)?;
    let document = openapi::document(router.items());
    published.publish(&document).map_err(TableError)?;
    Ok(Arc::new(router))
});

impl App {
    pub(crate) fn new(services: Services) -> Result<Self, TableError> {
        Ok(Self {
            router: ROUTER.clone()?,
            throttle: Throttle::new(&services.config),
            locks: ChangeLocks::new(),
            answers: AnswerBudget::default(),
            turns: Turns::default(),
            services: Arc::new(services),
        })
    }
}

/// The whole API; what has no route is answered 404.
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
    let app = Arc::new(App::new(services)?);
    let filter = head()
        .and(warp::body::stream())
        .then(move |head, body| {
            let app = app.clone();
            async move { stages::handle(&app, head, body).await }
        })
        .recover(no_rejection)
        .unify();
    let pages = signup_page::route().or(front_page::route()).unify();
    Ok(pages.or(filter).unify())
}

/// Takes the head of a request apart; never rejects.
fn head() -> impl Filter<Extract = (Head,), Error = Infallible> + Clone {
    warp::any()
        .and(warp::method())
        .and(full_uri())
        .and(warp::header::headers_cloned())
        .and(warp::ext::optional::<Peer>())
        .map(
            |method: Method, uri: Uri, headers: HeaderMap, peer: Option<Peer>| Head {
                method,
                uri,
                headers,
                peer,
            },
        )
}

/// Path and query. Both were parsed once already, so they parse again.
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

/// Nothing here rejects; the types of warp do not know that.
async fn no_rejection(_: Rejection) -> Result<Response, Infallible> {
    Ok(crate::error::ApiError::not_found().into_answer(false))
}
