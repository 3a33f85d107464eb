//! Multipart upload of a file. Stores keep the parts and show nothing until the upload is
//! completed.

use super::super::store::Upload;
use super::bucket::Objects;
use crate::error::ExportError;
use async_trait::async_trait;
use bytes::Bytes;
use object_store::path::Path as Key;
use object_store::{Error, MultipartUpload, ObjectStoreExt, PutPayload, PutPayloadMut};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Bytes of a part. All parts but the last have the same size, as some stores require it.
const PART_BYTES: usize = 8 << 20;
/// Parts in flight at most while the next one is gathered.
const PARTS_IN_FLIGHT_MAX: usize = 3;
/// Parts of an upload at most, as every store takes them.
const PARTS_MAX: u32 = 10_000;
/// Time for which parts in flight are waited for when an upload is aborted.
const PARTS_END_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct ObjectUpload {
    objects: Objects,
    key: Key,
    /// True if a file no larger than a part may stay in memory as a whole: only if it is the only
    /// one.
    may_wait: bool,
    gathered: PutPayloadMut,
    /// Multipart upload, once a part was sent.
    multipart: Option<Box<dyn MultipartUpload>>,
    parts: u32,
    in_flight: JoinSet<Result<(), Error>>,
}

impl ObjectUpload {
    pub(super) fn new(objects: Objects, key: Key, may_wait: bool) -> Self {
        Self {
            objects,
            key,
            may_wait,
            gathered: PutPayloadMut::new(),
            multipart: None,
            parts: 0,
            in_flight: JoinSet::new(),
        }
    }

    fn take_gathered(&mut self) -> PutPayload {
        std::mem::take(&mut self.gathered).freeze()
    }

    async fn send_part(&mut self) -> Result<(), ExportError> {
        self.wait_for(PARTS_IN_FLIGHT_MAX - 1).await?;
        if self.parts == PARTS_MAX {
            let message = "The file is larger than object stores accept. Set max_file_size_mb to \
                           get several smaller files.";
            return Err(ExportError::permanent(message));
        }
        let payload = self.take_gathered();
        let mut multipart = match self.multipart.take() {
            Some(multipart) => multipart,
            None => {
                let begun = self.objects.store.put_multipart(&self.key).await;
                begun.map_err(|error| self.objects.error(&error))?
            }
        };
        self.in_flight.spawn(multipart.put_part(payload));
        self.multipart = Some(multipart);
        self.parts += 1;
        Ok(())
    }

    /// Waits until no more than `parts_max` parts are in flight.
    async fn wait_for(&mut self, parts_max: usize) -> Result<(), ExportError> {
        while self.in_flight.len() > parts_max {
            match self.in_flight.join_next().await {
                Some(Ok(Ok(()))) | None => {}
                Some(Ok(Err(error))) => return Err(self.objects.error(&error)),
                Some(Err(_)) => return Err(ExportError::retryable("A part could not be sent.")),
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Upload for ObjectUpload {
    async fn write(&mut self, mut bytes: Bytes) -> Result<(), ExportError> {
        loop {
            let space = PART_BYTES - self.gathered.content_length();
            if bytes.len() < space {
                self.gathered.push(bytes);
                return Ok(());
            }
            self.gathered.push(bytes.split_to(space));
            self.send_part().await?;
        }
    }

    async fn seal(&mut self) -> Result<(), ExportError> {
        if self.multipart.is_none() && self.may_wait {
            return Ok(());
        }
        if !self.gathered.is_empty() {
            self.send_part().await?;
        }
        self.wait_for(0).await
    }

    async fn publish(mut self: Box<Self>) -> Result<(), ExportError> {
        let published = match &mut self.multipart {
            Some(multipart) => multipart.complete().await,
            None => {
                let payload = self.take_gathered();
                self.objects.store.put(&self.key, payload).await
            }
        };
        match published {
            Ok(_) => Ok(()),
            Err(error) => {
                let error = self.objects.error(&error);
                self.abort().await;
                Err(error)
            }
        }
    }

    async fn abort(mut self: Box<Self>) {
        // In some stores a part stays if it arrives after its upload was aborted.
        let ended = async { while self.in_flight.join_next().await.is_some() {} };
        drop(timeout(PARTS_END_TIMEOUT, ended).await);
        self.in_flight.shutdown().await;
        if let Some(mut multipart) = self.multipart {
            // Remaining parts are invisible; the store clears them away.
            if let Err(error) = multipart.abort().await {
                let error = self.objects.error(&error);
                tracing::warn!(%error, "an upload could not be taken back");
            }
        }
    }
}
