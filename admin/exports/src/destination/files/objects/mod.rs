//! Object stores: S3 and compatible ones, Azure's blobs, Google's buckets.
//!
//! | Module | Holds |
//! |---|---|
//! | `s3`, `azure`, `gcs` | open each store from its configuration |
//! | `bucket` | bucket or container, and how its store is connected to |
//! | `one_secret` | stores whose credentials are in one secret |
//! | `http` | HTTP requests through the guard |
//! | `upload` | multipart upload of a file |
//! | `classify` | classifies errors, in words for customers |

mod azure;
mod bucket;
mod classify;
mod gcs;
mod http;
mod one_secret;
mod s3;
mod upload;

use super::config::FilesConfig;
use super::store::{Store, Upload};
use crate::destination::TestStep;
use crate::error::ExportError;
use async_trait::async_trait;
use bucket::Objects;
use bytes::Bytes;
use millrace_catalog::DestinationType;
use millrace_dial::Guard;
use object_store::ObjectStoreExt;
use object_store::list::PaginatedListOptions;
use object_store::path::Path as Key;
use std::sync::Arc;
use upload::ObjectUpload;

/// Pages of a thousand keys of a window that are read at most: a window has fewer, but a server may
/// answer anything.
const PAGES_MAX: usize = 100;

/// Opens a store; returns it with the template of the prefix in it.
pub(super) fn open(
    config: &FilesConfig<'_>,
    guard: &Guard,
) -> Result<(Arc<dyn Store>, String), ExportError> {
    let (objects, template) = match config.kind {
        DestinationType::S3 => s3::open(config, guard)?,
        DestinationType::AzureBlob => azure::open(config, guard)?,
        DestinationType::Gcs => gcs::open(config, guard)?,
        _ => return Err(ExportError::permanent("This destination has no files.")),
    };
    Ok((Arc::new(objects), template))
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
            // A missing file has the same answer for credentials that may not list.
            Err(error) if classify::is_not_found(&error) || classify::is_denied(&error) => Ok(None),
            Err(error) => Err(self.error(&error)),
        }
    }

    async fn list(&self, key_prefix: &str) -> Result<Vec<String>, ExportError> {
        let mut keys = Vec::new();
        // Names of exports have no further slash; the library does not accept all paths of other
        // files.
        let mut options = PaginatedListOptions {
            delimiter: Some("/".into()),
            ..PaginatedListOptions::default()
        };
        for _ in 0..PAGES_MAX {
            let page = self
                .lister
                .list_paginated(Some(key_prefix), options.clone())
                .await;
            let page = match page {
                Ok(page) => page,
                Err(error) if classify::is_denied(&error) => return Ok(Vec::new()),
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
        Err(ExportError::permanent(format!(
            "{} has no end of files of this window. Change the prefix.",
            self.labels.service
        )))
    }

    async fn delete(&self, key: &str) -> Result<(), ExportError> {
        match self.store.delete(&parsed(key)?).await {
            Err(error) if !classify::is_not_found(&error) => Err(self.error(&error)),
            _ => Ok(()),
        }
    }

    fn test_steps(&self) -> &'static [TestStep] {
        use TestStep::{Authenticate, Delete, Reach, Read, Write};
        &[Reach, Authenticate, Write, Read, Delete]
    }

    async fn reach(&self) -> Result<(), ExportError> {
        match self.ask().await {
            Err(error) if classify::is_unanswered(&error) => Err(self.error(&error)),
            _ => Ok(()),
        }
    }

    async fn authenticate(&self) -> Result<(), ExportError> {
        match self.ask().await {
            // Credentials that may not list may still be allowed to write.
            Err(error) if !classify::is_denied(&error) => Err(self.error(&error)),
            _ => Ok(()),
        }
    }
}

fn parsed(key: &str) -> Result<Key, ExportError> {
    Key::parse(key).map_err(|_| {
        let message = "The prefix has a part that no file can be put below. Change it.";
        ExportError::permanent(message)
    })
}
