//! Threads that read files and make requests of them.

use super::settings::Load;
use crate::chunk::{Chunk, ChunkReader};
use crate::files::SourceFile;
use crate::journal::{RecordSet, Refusals};
use crate::request::{BodyPrefix, Request};
use crate::send::Compression;
use crate::stats::StageStats;
use bytes::Bytes;
use millrace_sources::Position;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use tokio::sync::mpsc::Sender;

/// Message of a reader to the sender.
#[derive(Debug)]
pub(super) enum ReaderMessage {
    /// A chunk of a file, with the compressed bodies of its requests.
    Chunk {
        file: SourceFile,
        chunk: Box<Chunk>,
        wires: Vec<Bytes>,
    },
    /// A file that cannot be read further. Chunks read before stay.
    Broken { file: SourceFile, message: String },
}

/// Knowledge of the records from earlier runs.
#[derive(Clone, Copy, Debug)]
pub(super) enum PriorRecords<'a> {
    /// Records that a resend brought in, which are left out.
    Settled(&'a RecordSet),
    /// Refused records: the files to read are of rejects.
    Refusals(&'a Refusals),
}

/// Waiting files, each with the position to continue at.
pub(super) type FileQueue = Mutex<VecDeque<(SourceFile, Position)>>;

/// Reads one file after the other until the queue is empty or the receiver is closed.
pub(super) fn read(
    load: &Load,
    queue: &FileQueue,
    known: PriorRecords<'_>,
    prefix: &BodyPrefix,
    compression: Compression,
    stats: &StageStats,
    sender: &Sender<ReaderMessage>,
) {
    loop {
        let next = queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        let Some((file, at)) = next else {
            return;
        };
        let reader = FileReader {
            load,
            known,
            prefix,
            compression,
            stats,
            sender,
        };
        if !reader.file(&file, at) {
            return;
        }
    }
}

/// Reads the chunks of a file and sends them over the channel.
struct FileReader<'a> {
    load: &'a Load,
    known: PriorRecords<'a>,
    prefix: &'a BodyPrefix,
    compression: Compression,
    stats: &'a StageStats,
    sender: &'a Sender<ReaderMessage>,
}

impl FileReader<'_> {
    /// Reads a file; returns false if the receiver is closed.
    fn file(&self, file: &SourceFile, at: Position) -> bool {
        match self.chunks(file, at) {
            Ok(is_wanted) => is_wanted,
            Err(message) => {
                let file = file.clone();
                self.sender
                    .blocking_send(ReaderMessage::Broken { file, message })
                    .is_ok()
            }
        }
    }

    fn chunks(&self, file: &SourceFile, at: Position) -> Result<bool, String> {
        let counter = self.stats.bytes_read();
        let before = counter.load(Ordering::Relaxed);
        let reader = ChunkReader::open(file, &self.load.plan, self.prefix, at, counter);
        let reader = reader
            .map_err(|error| error.to_string())?
            .with_limits(self.load.limits);
        let mut reader = match self.known {
            PriorRecords::Settled(settled) => reader.without(settled),
            PriorRecords::Refusals(refusals) => reader.replaying(&self.load.plan, refusals),
        };
        // Of uncompressed files, the positions are counted.
        let is_plain = counter.load(Ordering::Relaxed) == before && file.bytes > 0;
        let mut offset = 0;
        while let Some(chunk) = reader.next_chunk().map_err(|error| error.to_string())? {
            if is_plain {
                counter.fetch_add(chunk.next.offset.saturating_sub(offset), Ordering::Relaxed);
                offset = chunk.next.offset;
            }
            let wires = self.compress(&chunk.requests)?;
            let file = file.clone();
            let message = ReaderMessage::Chunk {
                file,
                chunk: Box::new(chunk),
                wires,
            };
            if self.sender.blocking_send(message).is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn compress(&self, requests: &[Request]) -> Result<Vec<Bytes>, String> {
        requests
            .iter()
            .map(|request| self.compression.apply(&request.body))
            .collect::<std::io::Result<_>>()
            .map_err(|error| error.to_string())
    }
}
