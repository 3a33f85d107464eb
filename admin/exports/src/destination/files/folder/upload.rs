//! Upload of a file under its temporary name.

use super::super::names::temporary;
use super::super::store::Upload;
use super::blocking::run_blocking;
use super::paths::{beneath, open_folder, split};
use crate::error::ExportError;
use async_trait::async_trait;
use bytes::Bytes;
use rustix::fs::{self, Advice, AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

const FILE_MODE: Mode = Mode::from_raw_mode(0o640);
/// Bytes at the end of a file for which write-back is advised after a write: those that are on disk
/// by then leave the cache.
const ADVISED_BYTES: u64 = 16 << 20;

/// File that is not yet visible. It is open only while it takes bytes: a run may have thousands.
pub(super) struct FileUpload {
    root: Arc<Path>,
    key: Arc<str>,
    attempt: Uuid,
    file: Option<Arc<File>>,
    bytes: u64,
}

impl FileUpload {
    /// Begins a file, and creates its folder where that is missing. Files that a killed try left
    /// are deleted when a later one publishes.
    pub(super) async fn begin(root: Arc<Path>, key: &str) -> Result<Self, ExportError> {
        let key: Arc<str> = key.into();
        let (within, name, attempt) = (Arc::clone(&root), Arc::clone(&key), Uuid::new_v4());
        let file = run_blocking(move || begin(&within, &name, attempt)).await?;
        Ok(Self {
            root,
            key,
            attempt,
            file: Some(Arc::new(file)),
            bytes: 0,
        })
    }

    fn file(&self) -> Result<Arc<File>, ExportError> {
        let closed = || ExportError::retryable("The file is closed already.");
        self.file.clone().ok_or_else(closed)
    }
}

#[async_trait]
impl Upload for FileUpload {
    async fn write(&mut self, bytes: Bytes) -> Result<(), ExportError> {
        let file = self.file()?;
        self.bytes += bytes.len() as u64;
        let end = self.bytes;
        run_blocking(move || {
            file.as_ref().write_all(&bytes)?;
            begin_to_store(&file, end);
            Ok(())
        })
        .await
    }

    async fn seal(&mut self) -> Result<(), ExportError> {
        let file = self.file()?;
        run_blocking(move || file.sync_all()).await?;
        self.file = None;
        Ok(())
    }

    async fn publish(self: Box<Self>) -> Result<(), ExportError> {
        run_blocking(move || publish(&self.root, &self.key, self.attempt)).await
    }

    async fn abort(self: Box<Self>) {
        // A file that stays is deleted when another try publishes.
        let _ = run_blocking(move || abort(&self.root, &self.key, self.attempt)).await;
    }
}

fn begin(root: &Path, key: &str, attempt: Uuid) -> io::Result<File> {
    let (folder, name) = split(key);
    let folder = open_folder(root, folder, true)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
    Ok(beneath(&folder, &temporary(name, attempt), flags, FILE_MODE)?.into())
}

/// Starts write-back of what was written: all at once at the end it would delay others that sync
/// there, such as the log; and nobody reads the file soon. It is advice: if it is not followed,
/// nothing is lost.
fn begin_to_store(file: &File, end: u64) {
    let start = end.saturating_sub(ADVISED_BYTES);
    if let Some(bytes) = NonZeroU64::new(end - start) {
        let _ = fs::fadvise(file, start, Some(bytes), Advice::DontNeed);
    }
}

/// Renames the file to its final name. A crash leaves the old file or this one.
fn publish(root: &Path, key: &str, attempt: Uuid) -> io::Result<()> {
    let (folder, name) = split(key);
    // Another try of the same window deleted the file, or somebody its folder. The folder for
    // exports is not missing, so another try helps.
    let gone = || io::Error::other("the file is gone");
    let folder = match open_folder(root, folder, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && root.is_dir() => {
            return Err(gone());
        }
        opened => opened?,
    };
    match fs::renameat(&folder, temporary(name, attempt), &folder, name) {
        Err(Errno::NOENT) => return Err(gone()),
        renamed => renamed?,
    }
    fs::fsync(&folder)?;
    Ok(())
}

fn abort(root: &Path, key: &str, attempt: Uuid) -> io::Result<()> {
    let (folder, name) = split(key);
    let folder = open_folder(root, folder, false)?;
    fs::unlinkat(&folder, temporary(name, attempt), AtFlags::empty())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ExportErrorKind::{Permanent, Retryable};

    #[tokio::test]
    async fn a_file_whose_folder_is_gone_is_tried_again_unless_exports_have_no_folder() {
        for (removed, kind) in [("root/out", Retryable), ("root", Permanent)] {
            let dir = tempfile::tempdir().unwrap();
            let root: Arc<Path> = dir.path().join("root").into();
            std::fs::create_dir(&root).unwrap();
            let begun = FileUpload::begin(root, "out/day/file").await;
            let mut upload = begun.unwrap();
            upload.write(Bytes::from_static(b"row")).await.unwrap();
            upload.seal().await.unwrap();
            std::fs::remove_dir_all(dir.path().join(removed)).unwrap();
            let error = Box::new(upload).publish().await.unwrap_err();
            assert_eq!(error.kind, kind, "{removed}: {error}");
        }
    }
}
