//! Object stores: what speaks like S3, Azure's blobs, Google's buckets.
//!
//! | Module | Holds |
//! |---|---|
//! | `s3`, `azure`, `gcs` | how each is reached by its configuration |
//! | `one_secret` | stores whose credentials are in one secret |
//! | `http` | their requests on the guard's way |
//! | `upload` | a file in parts |
//! | `blame` | what went wrong, in words for customers |

mod azure;
mod blame;
mod gcs;
mod http;
mod one_secret;
mod s3;
mod upload;

use super::FilesConfig;
use super::store::{Store, Upload};
use crate::destination::TestStep;
use crate::error::ExportError;
use async_trait::async_trait;
use blame::Blame;
use bytes::Bytes;
use http::GuardedConnector;
use millrace_catalog::DestinationType;
use millrace_dial::Guard;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path as Key;
use object_store::{BackoffConfig, Error, ObjectStore, ObjectStoreExt, RetryConfig};
use std::sync::Arc;
use std::time::Duration;
use upload::ObjectUpload;
use url::Url;

/// How often a request is tried again that the store was too busy for, or the network broke.
const RETRIES_MAX: usize = 5;
/// How long a request may take with all its tries.
const RETRY_TIMEOUT: Duration = Duration::from_secs(120);
const BACKOFF_FIRST: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// The most pages that are read of the keys of a window, a thousand each: it has fewer, but a
/// server may answer whatever it likes.
const PAGES_MAX: usize = 100;

/// A store, and the template of the prefix in it.
pub(super) fn open(
    config: &FilesConfig<'_>,
    guard: &Guard,
) -> Result<(Arc<dyn Store>, String), ExportError> {
    let (objects, template) = match config.kind {
        DestinationType::S3 => s3::open(config, guard)?,
        DestinationType::AzureBlob => azure::open(config, guard)?,
        DestinationType::Gcs => gcs::open(config, guard)?,
        _ => return Err(ExportError::hopeless("This destination has no files.")),
    };
    Ok((Arc::new(objects), template))
}

/// One bucket or container.
#[derive(Clone)]
struct Objects {
    store: Arc<dyn ObjectStore>,
    lister: Arc<dyn PaginatedListStore>,
    blame: Arc<Blame>,
}

impl Objects {
    fn new<S: ObjectStore + PaginatedListStore>(store: S, blame: Blame) -> Self {
        let store = Arc::new(store);
        Self {
            lister: Arc::clone(&store) as Arc<dyn PaginatedListStore>,
            store,
            blame: Arc::new(blame),
        }
    }

    fn error(&self, error: &Error) -> ExportError {
        self.blame.error(error)
    }

    /// Asks for one key, whatever it is.
    async fn ask(&self) -> Result<(), Error> {
        let options = PaginatedListOptions {
            max_keys: Some(1),
            ..PaginatedListOptions::default()
        };
        self.lister.list_paginated(None, options).await.map(drop)
    }
}

#[async_trait]
impl Store for Objects {
    async fn begin(&self, key: &str, is_alone: bool) -> Result<Box<dyn Upload>, ExportError> {
        Ok(Box::new(ObjectUpload::new(
            self.clone(),
            parsed(key)?,
            is_alone,
        )))
    }

    async fn put(&self, key: &str, bytes: Bytes) -> Result<(), ExportError> {
        let put = self.store.put(&parsed(key)?, bytes.into()).await;
        put.map(drop).map_err(|error| self.error(&error))
    }

    async fn read(&self, key: &str) -> Result<Option<Bytes>, ExportError> {
        let key = parsed(key)?;
        let read = async { self.store.get(&key).await?.bytes().await };
        match read.await {
            Ok(bytes) => Ok(Some(bytes)),
            // Who may not list is told the same of a file that is not there.
            Err(error) if blame::is_absent(&error) || blame::is_denied(&error) => Ok(None),
            Err(error) => Err(self.error(&error)),
        }
    }

    async fn list(&self, beginning: &str) -> Result<Vec<String>, ExportError> {
        let mut keys = Vec::new();
        // No name of ours goes on with a slash; of what does, some have no paths that the library takes.
        let mut options = PaginatedListOptions {
            delimiter: Some("/".into()),
            ..PaginatedListOptions::default()
        };
        for _ in 0..PAGES_MAX {
            let page = self
                .lister
                .list_paginated(Some(beginning), options.clone())
                .await;
            let page = match page {
                Ok(page) => page,
                Err(error) if blame::is_denied(&error) => return Ok(Vec::new()),
                Err(error) => return Err(self.error(&error)),
            };
            keys.extend(
                page.result
                    .objects
                    .into_iter()
                    .map(|object| object.location.into()),
            );
            if page.page_token.is_none() {
                return Ok(keys);
            }
            options.page_token = page.page_token;
        }
        Err(ExportError::hopeless(format!(
            "{} has no end of files of this window. Change the prefix.",
            self.blame.service
        )))
    }

    async fn delete(&self, key: &str) -> Result<(), ExportError> {
        match self.store.delete(&parsed(key)?).await {
            Err(error) if !blame::is_absent(&error) => Err(self.error(&error)),
            _ => Ok(()),
        }
    }

    fn test_steps(&self) -> &'static [TestStep] {
        use TestStep::{Authenticate, Delete, Reach, Read, Write};
        &[Reach, Authenticate, Write, Read, Delete]
    }

    async fn reach(&self) -> Result<(), ExportError> {
        match self.ask().await {
            Err(error) if blame::is_unanswered(&error) => Err(self.error(&error)),
            _ => Ok(()),
        }
    }

    async fn authenticate(&self) -> Result<(), ExportError> {
        match self.ask().await {
            // Whom it knows and lets list nothing may still be let write.
            Err(error) if !blame::is_denied(&error) => Err(self.error(&error)),
            _ => Ok(()),
        }
    }
}

fn parsed(key: &str) -> Result<Key, ExportError> {
    Key::parse(key).map_err(|_| {
        let message = "The prefix has a part that no file can be put below. Change it.";
        ExportError::hopeless(message)
    })
}

/// Whether a URL says where a server is, and a path there, and nothing else.
fn is_plain(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
}

fn retries() -> RetryConfig {
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

fn connector(guard: &Guard) -> GuardedConnector {
    GuardedConnector(guard.http_client())
}
