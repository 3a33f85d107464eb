//! State that all requests share: the table of operations, limits, locks.

use crate::change::lock::ChangeLocks;
use crate::openapi;
use crate::request::throttle::Throttle;
use crate::response::budget::ResponseBudget;
use crate::response::read_slots::ReadSlots;
use crate::router::Router;
use crate::routes::documentation::Published;
use crate::services::Services;
use std::sync::{Arc, LazyLock};

/// State that all requests share.
pub(crate) struct App {
    pub(crate) services: Arc<Services>,
    pub(crate) router: Arc<Router>,
    pub(crate) throttle: Throttle,
    pub(crate) locks: ChangeLocks,
    pub(crate) response_budget: ResponseBudget,
    pub(crate) read_slots: ReadSlots,
}

/// Error for an inconsistent table of operations (the API's routes). A test builds the table, so
/// this cannot happen in a release.
#[derive(Clone, Debug)]
pub struct TableError(String);

impl std::fmt::Display for TableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the table of operations cannot be used: {}", self.0)
    }
}

impl std::error::Error for TableError {}

/// Router over the table of operations, with the document published. Shared by all instances of
/// the API, so that tests, which have hundreds, compile its schemas once.
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
            response_budget: ResponseBudget::default(),
            read_slots: ReadSlots::default(),
            services: Arc::new(services),
        })
    }
}
