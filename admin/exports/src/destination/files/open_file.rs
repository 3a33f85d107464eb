//! A file that takes bytes.
//!
//! While one piece of it is compressed, hashed and stored, the next one is gathered: so ClickHouse
//! and we work at the same time, and no more than two pieces wait.

use super::encode::{Encoder, FileDigest};
use super::store::Upload;
use crate::error::ExportError;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::task::{JoinHandle, spawn_blocking};

/// How many bytes are gathered before they go on: fewer cost more hand-overs, more cost memory.
const PIECE_BYTES: usize = 1 << 20;

pub(super) struct OpenFile {
    pub(super) key: String,
    gathered: Vec<Bytes>,
    gathered_bytes: usize,
    work: Work,
}

/// Whether somebody works on the file at this moment.
enum Work {
    Idle(Box<Line>),
    Busy(JoinHandle<(Box<Line>, Result<(), ExportError>)>),
    /// It was given up: whoever worked on it panicked, or was stopped with the runtime.
    Lost,
}

/// What pieces go through.
struct Line {
    /// `None` while it works, and if it did not survive that.
    encoder: Option<Encoder>,
    upload: Box<dyn Upload>,
    /// Counts the bytes that the upload took.
    sent: Arc<AtomicU64>,
}

impl OpenFile {
    pub(super) fn new(
        key: String,
        encoder: Encoder,
        upload: Box<dyn Upload>,
        sent: Arc<AtomicU64>,
    ) -> Self {
        let line = Line {
            encoder: Some(encoder),
            upload,
            sent,
        };
        Self {
            key,
            gathered: Vec::new(),
            gathered_bytes: 0,
            work: Work::Idle(Box::new(line)),
        }
    }

    /// Takes the next bytes; waits while the piece before is not yet done.
    pub(super) async fn write(&mut self, bytes: Bytes) -> Result<(), ExportError> {
        self.gathered_bytes += bytes.len();
        self.gathered.push(bytes);
        if self.gathered_bytes < PIECE_BYTES {
            return Ok(());
        }
        self.hand_over().await
    }

    /// Ends when all of it is stored.
    pub(super) async fn seal(&mut self) -> Result<FileDigest, ExportError> {
        self.hand_over().await?;
        self.settle().await?;
        match &mut self.work {
            Work::Idle(line) => line.seal().await,
            _ => Err(broken()),
        }
    }

    /// What was sealed.
    pub(super) fn into_upload(self) -> Result<Box<dyn Upload>, ExportError> {
        match self.work {
            Work::Idle(line) => Ok(line.upload),
            _ => Err(broken()),
        }
    }

    pub(super) async fn abort(mut self) {
        // What went wrong with the last piece does not matter any more.
        let _ = self.settle().await;
        if let Work::Idle(line) = self.work {
            line.upload.abort().await;
        }
    }

    /// Sends off what was gathered, once the piece before is done.
    async fn hand_over(&mut self) -> Result<(), ExportError> {
        self.settle().await?;
        self.gathered_bytes = 0;
        let pieces = std::mem::take(&mut self.gathered);
        self.work = match std::mem::replace(&mut self.work, Work::Lost) {
            Work::Idle(line) => Work::Busy(tokio::spawn(line.pass(pieces))),
            other => other,
        };
        Ok(())
    }

    /// Waits until nobody works on the file.
    async fn settle(&mut self) -> Result<(), ExportError> {
        let done = match &mut self.work {
            Work::Idle(_) => return Ok(()),
            Work::Busy(working) => working.await,
            Work::Lost => return Err(broken()),
        };
        self.work = Work::Lost;
        let (line, result) = done.map_err(|_| broken())?;
        self.work = Work::Idle(line);
        result
    }
}

impl Line {
    async fn pass(mut self: Box<Self>, pieces: Vec<Bytes>) -> (Box<Self>, Result<(), ExportError>) {
        let passed = self.encode_and_store(pieces).await;
        (self, passed)
    }

    async fn encode_and_store(&mut self, pieces: Vec<Bytes>) -> Result<(), ExportError> {
        let mut encoder = self.encoder.take().ok_or_else(broken)?;
        let encoding = spawn_blocking(move || (encoder.encode(pieces), encoder));
        let (encoded, encoder) = encoding.await.map_err(|_| broken())?;
        self.encoder = Some(encoder);
        for piece in encoded.map_err(|_| broken())? {
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
        let encoder = self.encoder.take().ok_or_else(broken)?;
        let finished = spawn_blocking(move || encoder.finish()).await;
        let (rest, digest) = finished.map_err(|_| broken())?.map_err(|_| broken())?;
        self.store(rest).await?;
        self.upload.seal().await?;
        Ok(digest)
    }
}

/// Nothing that the customer could mend, and nothing that should ever be.
fn broken() -> ExportError {
    ExportError::retry("The file could not be encoded.")
}
