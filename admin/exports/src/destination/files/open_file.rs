//! File that is being written.
//!
//! While one piece of it is compressed, hashed and stored, the next one is gathered: so ClickHouse
//! and this process work at the same time, and no more than two pieces are in memory.

use super::encode::{Encoder, FileDigest};
use super::store::Upload;
use crate::error::ExportError;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::task::{JoinHandle, spawn_blocking};

/// Bytes that are gathered before they are encoded: fewer cost more hand-overs, more cost memory.
const PIECE_BYTES: usize = 1 << 20;

pub(super) struct OpenFile {
    pub(super) key: String,
    gathered: Vec<Bytes>,
    gathered_bytes: usize,
    state: WriterState,
}

/// State of the file's writer.
enum WriterState {
    Idle(Box<FileWriter>),
    Busy(JoinHandle<(Box<FileWriter>, Result<(), ExportError>)>),
    /// The writer's task panicked, or was stopped with the runtime.
    Lost,
}

/// Writer of a file: encodes pieces and stores them.
struct FileWriter {
    /// `None` while it encodes, and after a panic in that.
    encoder: Option<Encoder>,
    upload: Box<dyn Upload>,
    /// Counter of bytes that the upload took.
    sent: Arc<AtomicU64>,
}

impl OpenFile {
    pub(super) fn new(
        key: String,
        encoder: Encoder,
        upload: Box<dyn Upload>,
        sent: Arc<AtomicU64>,
    ) -> Self {
        let writer = FileWriter {
            encoder: Some(encoder),
            upload,
            sent,
        };
        Self {
            key,
            gathered: Vec::new(),
            gathered_bytes: 0,
            state: WriterState::Idle(Box::new(writer)),
        }
    }

    /// Takes the next bytes; waits while the previous piece is not yet stored.
    pub(super) async fn write(&mut self, bytes: Bytes) -> Result<(), ExportError> {
        self.gathered_bytes += bytes.len();
        self.gathered.push(bytes);
        if self.gathered_bytes < PIECE_BYTES {
            return Ok(());
        }
        self.hand_over().await
    }

    /// Waits until the whole file is stored.
    pub(super) async fn seal(&mut self) -> Result<FileDigest, ExportError> {
        self.hand_over().await?;
        self.wait_until_idle().await?;
        match &mut self.state {
            WriterState::Idle(writer) => writer.seal().await,
            _ => Err(internal_error()),
        }
    }

    /// Returns the sealed upload.
    pub(super) fn into_upload(self) -> Result<Box<dyn Upload>, ExportError> {
        match self.state {
            WriterState::Idle(writer) => Ok(writer.upload),
            _ => Err(internal_error()),
        }
    }

    pub(super) async fn abort(mut self) {
        // An error of the last piece does not matter any more.
        let _ = self.wait_until_idle().await;
        if let WriterState::Idle(writer) = self.state {
            writer.upload.abort().await;
        }
    }

    /// Passes the gathered bytes to the writer, once the previous piece is done.
    async fn hand_over(&mut self) -> Result<(), ExportError> {
        self.wait_until_idle().await?;
        self.gathered_bytes = 0;
        let pieces = std::mem::take(&mut self.gathered);
        self.state = match std::mem::replace(&mut self.state, WriterState::Lost) {
            WriterState::Idle(writer) => WriterState::Busy(tokio::spawn(writer.pass(pieces))),
            other => other,
        };
        Ok(())
    }

    /// Waits until the writer is idle.
    async fn wait_until_idle(&mut self) -> Result<(), ExportError> {
        let done = match &mut self.state {
            WriterState::Idle(_) => return Ok(()),
            WriterState::Busy(working) => working.await,
            WriterState::Lost => return Err(internal_error()),
        };
        self.state = WriterState::Lost;
        let (writer, result) = done.map_err(|_| internal_error())?;
        self.state = WriterState::Idle(writer);
        result
    }
}

impl FileWriter {
    async fn pass(mut self: Box<Self>, pieces: Vec<Bytes>) -> (Box<Self>, Result<(), ExportError>) {
        let passed = self.encode_and_store(pieces).await;
        (self, passed)
    }

    async fn encode_and_store(&mut self, pieces: Vec<Bytes>) -> Result<(), ExportError> {
        let mut encoder = self.encoder.take().ok_or_else(internal_error)?;
        let encoding = spawn_blocking(move || (encoder.encode(pieces), encoder));
        let (encoded, encoder) = encoding.await.map_err(|_| internal_error())?;
        self.encoder = Some(encoder);
        for piece in encoded.map_err(|_| internal_error())? {
            self.store(piece).await?;
        }
        Ok(())
    }

    async fn store(&mut self, piece: Bytes) -> Result<(), ExportError> {
        if piece.is_empty() {
            return Ok(());
        }
        let length = piece.len() as u64;
        self.upload.write(piece).await?;
        self.sent.fetch_add(length, Ordering::Relaxed);
        Ok(())
    }

    async fn seal(&mut self) -> Result<FileDigest, ExportError> {
        let encoder = self.encoder.take().ok_or_else(internal_error)?;
        let finished = spawn_blocking(move || encoder.finish()).await;
        let (rest, digest) = finished
            .map_err(|_| internal_error())?
            .map_err(|_| internal_error())?;
        self.store(rest).await?;
        self.upload.seal().await?;
        Ok(digest)
    }
}

/// Error that should never occur, and that the customer cannot mend.
fn internal_error() -> ExportError {
    ExportError::retryable("The file could not be encoded.")
}
