//! A folder of this server, below the one that its operator gave for exports and, in that, the one
//! of the export's organization: neither can one put files where another has its own, nor does
//! what goes wrong in one tell of those of others.
//!
//! Every path is opened from a handle of that folder, one name after the other, and the system is
//! asked to follow no link and to leave it nowhere; so what customers name, and what somebody puts
//! there meanwhile, leads out in no way. Files are written under temporary names, synced, renamed,
//! and their folder is synced: a crash leaves the file of before or the new one.

mod paths;
mod upload;

use super::FilesConfig;
use super::settings::read;
use super::store::{Store, Upload};
use crate::destination::TestStep;
use crate::error::ExportError;
use async_trait::async_trait;
use bytes::Bytes;
use paths::{delete, list, read_file};
use rustix::io::Errno;
use serde::Deserialize;
use std::io;
use std::path::{Component, Path};
use std::sync::Arc;
use tokio::task::spawn_blocking;
use upload::FileUpload;

#[derive(Deserialize)]
struct FolderSettings {
    path: String,
}

/// Below which folder, and the template of the folder in it.
pub(super) fn open(config: &FilesConfig<'_>) -> Result<(Arc<dyn Store>, String), ExportError> {
    let Some(root) = config.export_root else {
        let message = "This server exports to no files: its operator has not set export_root.";
        return Err(ExportError::hopeless(message));
    };
    let settings: FolderSettings = read(config.config)?;
    let path = Path::new(&settings.path);
    let (below, own) = match root.files_of {
        Some(organization_id) => (path, Some(organization_id.to_string())),
        // A path that is not absolute is below the root by itself.
        None => (path.strip_prefix(root.path).unwrap_or(path), None),
    };
    let mut parts: Vec<String> = own.into_iter().collect();
    for component in below.components() {
        match component {
            Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
            Component::CurDir => {}
            _ => {
                let message = "The path leads out of the folder for exports. Change it.";
                return Err(ExportError::hopeless(message));
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
    /// Does something with the file system where nobody waits for it.
    async fn away<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, ExportError> {
        let root = Arc::clone(&self.root);
        away(move || work(&root)).await
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
        self.away(move |root| absent_is_none(read_file(root, &key)))
            .await
    }

    async fn list(&self, beginning: &str) -> Result<Vec<String>, ExportError> {
        let beginning = beginning.to_owned();
        let listed = self
            .away(move |root| absent_is_none(list(root, &beginning)))
            .await?;
        Ok(listed.unwrap_or_default())
    }

    async fn delete(&self, key: &str) -> Result<(), ExportError> {
        let key = key.to_owned();
        self.away(move |root| absent_is_none(delete(root, &key)).map(drop))
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

async fn away<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, ExportError> {
    match spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| blamed(&error)),
        Err(_) => Err(ExportError::retry("The file could not be written.")),
    }
}

fn absent_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// In words for customers, who do not know where on the server the folder is.
fn blamed(error: &io::Error) -> ExportError {
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::DQUOT) => {
            ExportError::retry("The disk for exports is full. Ask the server's operator for room.")
        }
        Some(Errno::NOENT) => ExportError::hopeless(
            "The server's folder for exports is not there. Ask its operator to make it.",
        ),
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => ExportError::hopeless(
            "The server may not write there. Ask its operator to let it, or change the path.",
        ),
        Some(Errno::LOOP | Errno::XDEV) => {
            ExportError::hopeless("A link is in the way, and exports follow none. Change the path.")
        }
        Some(Errno::NOTDIR | Errno::ISDIR | Errno::EXIST) => ExportError::hopeless(
            "A file is where a folder is needed, or a folder where a file is. Change the path.",
        ),
        Some(Errno::NAMETOOLONG | Errno::INVAL) => {
            ExportError::hopeless("The path cannot be used for a file. Change it.")
        }
        _ => ExportError::retry("The file could not be written."),
    }
}
