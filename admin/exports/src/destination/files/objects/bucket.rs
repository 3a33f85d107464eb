//! Bucket or container, and how its store is connected to.

use super::classify::StoreLabels;
use super::http::GuardHook;
use crate::error::ExportError;
use millrace_dial::Guard;
use millrace_objects::StoreConnector;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::{BackoffConfig, Error, ObjectStore, RetryConfig};
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// Retries of a request after the store was busy or the network broke.
const RETRIES_MAX: usize = 5;
/// Time limit of a request with all its retries.
const RETRY_TIMEOUT: Duration = Duration::from_secs(120);
const BACKOFF_FIRST: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// Bucket or container.
#[derive(Clone)]
pub(super) struct Objects {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) lister: Arc<dyn PaginatedListStore>,
    pub(super) labels: Arc<StoreLabels>,
}

impl Objects {
    pub(super) fn new<S: ObjectStore + PaginatedListStore>(store: S, labels: StoreLabels) -> Self {
        let store = Arc::new(store);
        Self {
            lister: Arc::clone(&store) as Arc<dyn PaginatedListStore>,
            store,
            labels: Arc::new(labels),
        }
    }

    pub(super) fn error(&self, error: &Error) -> ExportError {
        self.labels.classify(error)
    }

    /// Lists one key, whichever it is.
    pub(super) async fn ask(&self) -> Result<(), Error> {
        let options = PaginatedListOptions {
            max_keys: Some(1),
            ..PaginatedListOptions::default()
        };
        self.lister.list_paginated(None, options).await.map(drop)
    }
}

/// Returns true if a URL has a server and a path, and nothing else.
pub(super) fn is_plain(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
}

/// Retries of requests.
pub(super) fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: BACKOFF_FIRST,
            max_backoff: BACKOFF_MAX,
            ..BackoffConfig::default()
        },
        max_retries: RETRIES_MAX,
        retry_timeout: RETRY_TIMEOUT,
    }
}

/// Connector that dials through the guard.
pub(super) fn connector(guard: &Guard) -> StoreConnector<GuardHook> {
    StoreConnector::new(guard.http_client(), GuardHook)
}
