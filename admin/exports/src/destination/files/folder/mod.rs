//! Store in a folder of this server, below the folder that its operator gave for exports and, in
//! that, the folder of the export's organization: so no organization can write to another's files,
//! or learn of them from errors.
//!
//! Every path is opened from a handle of that folder, one name after the other, and the system is
//! told to follow no link and not to leave the folder. So neither a customer's path nor a link put
//! there meanwhile leads out. Files are written under temporary names, synced, renamed, and their
//! folder is synced: a crash leaves the old file or the new one.

mod blocking;
mod paths;
mod upload;

use super::config::FilesConfig;
use super::settings::read;
use super::store::{Store, Upload};
use crate::destination::TestStep;
use crate::error::ExportError;
use async_trait::async_trait;
use blocking::run_blocking;
use bytes::Bytes;
use paths::{delete, list, read_file};
use serde::Deserialize;
use std::io;
use std::path::{Component, Path};
use std::sync::Arc;
use upload::FileUpload;

#[derive(Deserialize)]
struct FolderSettings {
    path: String,
}

/// Opens the folder; returns it with the template of the path in it.
pub(super) fn open(config: &FilesConfig<'_>) -> Result<(Arc<dyn Store>, String), ExportError> {
    let Some(root) = config.export_root else {
        let message = "This server exports to no files: its operator has not set export_root.";
        return Err(ExportError::permanent(message));
    };
    let settings: FolderSettings = read(config.config)?;
    let path = Path::new(&settings.path);
    let (below, own) = match root.files_of {
        Some(organization_id) => (path, Some(organization_id.to_string())),
        // A relative path is below the root anyway.
        None => (path.strip_prefix(root.path).unwrap_or(path), None),
    };
    let mut parts: Vec<String> = own.into_iter().collect();
    for component in below.components() {
        match component {
            Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
            Component::CurDir => {}
            _ => {
                let message = "The path leads out of the folder for exports. Change it.";
                return Err(ExportError::permanent(message));
            }
        }
    }
    let store = Arc::new(Folder {
        root: root.path.into(),
    });
    Ok((store, parts.join("/")))
}

struct Folder {
    root: Arc<Path>,
}

impl Folder {
    /// Runs work on the file system on a blocking thread.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, ExportError> {
        let root = Arc::clone(&self.root);
        run_blocking(move || work(&root)).await
    }
}

#[async_trait]
impl Store for Folder {
    async fn begin(&self, key: &str, _is_alone: bool) -> Result<Box<dyn Upload>, ExportError> {
        let begun = FileUpload::begin(Arc::clone(&self.root), key).await?;
        Ok(Box::new(begun))
    }

    async fn put(&self, key: &str, bytes: Bytes) -> Result<(), ExportError> {
        let mut upload = self.begin(key, true).await?;
        upload.write(bytes).await?;
        upload.seal().await?;
        upload.publish().await
    }

    async fn read(&self, key: &str) -> Result<Option<Bytes>, ExportError> {
        let key = key.to_owned();
        self.run_blocking(move |root| absent_is_none(read_file(root, &key)))
            .await
    }

    async fn list(&self, key_prefix: &str) -> Result<Vec<String>, ExportError> {
        let key_prefix = key_prefix.to_owned();
        let listed = self
            .run_blocking(move |root| absent_is_none(list(root, &key_prefix)))
            .await?;
        Ok(listed.unwrap_or_default())
    }

    async fn delete(&self, key: &str) -> Result<(), ExportError> {
        let key = key.to_owned();
        self.run_blocking(move |root| absent_is_none(delete(root, &key)).map(drop))
            .await
    }

    fn test_steps(&self) -> &'static [TestStep] {
        &[TestStep::Write, TestStep::Read, TestStep::Delete]
    }

    async fn reach(&self) -> Result<(), ExportError> {
        Ok(())
    }

    async fn authenticate(&self) -> Result<(), ExportError> {
        Ok(())
    }
}

fn absent_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
