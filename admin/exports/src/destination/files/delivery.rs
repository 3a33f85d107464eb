//! Delivery of one run's files, from the first byte to the manifest.

use super::encode::Encoder;
use super::manifest::{Manifest, ManifestFile};
use super::names::WindowNames;
use super::open_file::OpenFile;
use super::settings::StreamCompression;
use super::store::{Store, Upload};
use crate::destination::{Delivered, Delivery};
use crate::error::ExportError;
use crate::window::RunScope;
use async_trait::async_trait;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Delivery of one run's files.
pub(super) struct FileDelivery {
    store: Arc<dyn Store>,
    names: WindowNames,
    run: RunScope,
    /// Number of files that there will be.
    parts: u32,
    compression: Option<StreamCompression>,
    /// File that takes bytes, if any have arrived.
    current: Option<OpenFile>,
    /// Bytes of all files so far, as they are stored.
    sent: Arc<AtomicU64>,
    /// Files that are stored and not yet visible.
    sealed: Vec<(Box<dyn Upload>, ManifestFile)>,
}

impl FileDelivery {
    pub(super) async fn begin(
        store: Arc<dyn Store>,
        names: WindowNames,
        run: &RunScope,
        parts: u32,
        compression: Option<StreamCompression>,
    ) -> Result<Self, ExportError> {
        earlier(store.as_ref(), &names, run).await?;
        Ok(Self {
            store,
            names,
            run: run.clone(),
            parts,
            compression,
            current: None,
            sent: Arc::default(),
            sealed: Vec::new(),
        })
    }

    /// File that takes bytes; begins one if there is none.
    async fn current(&mut self) -> Result<&mut OpenFile, ExportError> {
        let file = match self.current.take() {
            Some(file) => file,
            None => {
                let key = self.names.file(self.sealed.len());
                let encoder = Encoder::new(self.compression).map_err(|_| not_encoded())?;
                let upload = self.store.begin(&key, self.parts == 1).await?;
                OpenFile::new(key, encoder, upload, Arc::clone(&self.sent))
            }
        };
        Ok(self.current.insert(file))
    }
}

/// Reads the manifest of an earlier try. Another export's files are an error, as they are not
/// overwritten: two exports may have the same prefix, and nobody would notice.
async fn earlier(
    store: &dyn Store,
    names: &WindowNames,
    run: &RunScope,
) -> Result<Bytes, ExportError> {
    let Some(earlier) = store.read(&names.manifest()).await? else {
        return Ok(Bytes::new());
    };
    let owner = match Manifest::owner(&earlier) {
        Some(export_id) if export_id == run.export_id => return Ok(earlier),
        Some(export_id) => format!("The export {export_id}"),
        None => "Somebody else".to_owned(),
    };
    Err(ExportError::permanent(format!(
        "{owner} has put files of this window there, and they are not overwritten. Give each \
         export a prefix or a path of its own, or delete the files and the manifest of the deleted \
         export."
    )))
}

/// Deletes files of an earlier try that this one does not have.
async fn delete_stale(
    store: &dyn Store,
    names: &WindowNames,
    run: &RunScope,
    manifest: &Manifest,
) -> Result<(), ExportError> {
    let listed = store.list(&names.key_prefix()).await?.into_iter();
    // Read again: another export may have written there meanwhile.
    let earlier = earlier(store, names, run).await?;
    let named = Manifest::earlier_keys(&earlier, run.export_id).into_iter();
    let stale: BTreeSet<_> = listed
        .filter(|key| names.is_file(key))
        .chain(named.filter(|key| names.is_of_window(key)))
        .filter(|key| !manifest.names(key))
        .collect();
    for key in stale {
        store.delete(&key).await?;
    }
    Ok(())
}

#[async_trait]
impl Delivery for FileDelivery {
    async fn write(&mut self, bytes: Bytes) -> Result<(), ExportError> {
        self.current().await?.write(bytes).await
    }

    async fn end_part(&mut self, rows: u64) -> Result<(), ExportError> {
        let digest = self.current().await?.seal().await?;
        if let Some(file) = self.current.take() {
            let described = ManifestFile::new(file.key.clone(), rows, digest);
            self.sealed.push((file.into_upload()?, described));
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    async fn publish(mut self: Box<Self>) -> Result<Delivered, ExportError> {
        if let Err(error) = earlier(self.store.as_ref(), &self.names, &self.run).await {
            self.abort().await;
            return Err(error);
        }
        let mut files = Vec::with_capacity(self.sealed.len());
        let mut uploads = std::mem::take(&mut self.sealed).into_iter();
        while let Some((upload, file)) = uploads.next() {
            if let Err(error) = upload.publish().await {
                for (upload, _) in uploads {
                    upload.abort().await;
                }
                return Err(error);
            }
            files.push(file);
        }
        let manifest = Manifest::new(&self.run, files);
        let store = Arc::clone(&self.store);
        delete_stale(store.as_ref(), &self.names, &self.run, &manifest).await?;
        let json = manifest.to_json().map_err(|_| not_encoded())?;
        store.put(&self.names.manifest(), json).await?;
        Ok(Delivered {
            bytes: manifest.bytes,
            ..Delivered::default()
        })
    }

    async fn abort(mut self: Box<Self>) {
        if let Some(file) = self.current.take() {
            file.abort().await;
        }
        for (upload, _) in std::mem::take(&mut self.sealed) {
            upload.abort().await;
        }
    }
}

fn not_encoded() -> ExportError {
    ExportError::retryable("The file could not be encoded.")
}
