//! The threads that read files and make requests of them.

use super::Load;
use crate::chunk::{Chunk, ChunkReader};
use crate::files::SourceFile;
use crate::journal::{Records, Refusals};
use crate::meter::Meter;
use crate::request::{Head, Request};
use crate::send::Compression;
use bytes::Bytes;
use millrace_sources::Position;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use tokio::sync::mpsc::Sender;

/// What a reader hands over.
#[derive(Debug)]
pub(super) enum Read {
    /// A chunk of a file, with the bodies of its requests as they are sent.
    Chunk {
        file: SourceFile,
        chunk: Box<Chunk>,
        wires: Vec<Bytes>,
    },
    /// A file that cannot be read on. What was read of it before stays.
    Broken { file: SourceFile, message: String },
}

/// What is known of the records beforehand.
#[derive(Clone, Copy, Debug)]
pub(super) enum Known<'a> {
    /// Those that a resend brought in: they are left out.
    Settled(&'a Records),
    /// Those that were refused: the files are of rejects.
    Refusals(&'a Refusals),
}

/// Files that wait, and where each goes on.
pub(super) type Queue = Mutex<VecDeque<(SourceFile, Position)>>;

/// Reads one file after the other until there are none, or nobody takes what is read.
pub(super) fn read(
    load: &Load,
    queue: &Queue,
    known: Known<'_>,
    head: &Head,
    compression: Compression,
    meter: &Meter,
    give: &Sender<Read>,
) {
    loop {
        let next = queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        let Some((file, at)) = next else {
            return;
        };
        let read = Reading {
            load,
            known,
            head,
            compression,
            meter,
            give,
        };
        if !read.file(&file, at) {
            return;
        }
    }
}

struct Reading<'a> {
    load: &'a Load,
    known: Known<'a>,
    head: &'a Head,
    compression: Compression,
    meter: &'a Meter,
    give: &'a Sender<Read>,
}

impl Reading<'_> {
    /// Reads a file; false when nobody takes what is read any more.
    fn file(&self, file: &SourceFile, at: Position) -> bool {
        match self.chunks(file, at) {
            Ok(is_wanted) => is_wanted,
            Err(message) => {
                let file = file.clone();
                self.give
                    .blocking_send(Read::Broken { file, message })
                    .is_ok()
            }
        }
    }

    fn chunks(&self, file: &SourceFile, at: Position) -> Result<bool, String> {
        let counter = self.meter.bytes_read();
        let before = counter.load(Ordering::Relaxed);
        let reader = ChunkReader::open(file, &self.load.plan, self.head, at, counter);
        let reader = reader
            .map_err(|error| error.to_string())?
            .with_cuts(self.load.cuts);
        let mut reader = match self.known {
            Known::Settled(settled) => reader.without(settled),
            Known::Refusals(refusals) => reader.replaying(&self.load.plan, refusals),
        };
        // Files that are read as they lie count their positions.
        let is_plain = counter.load(Ordering::Relaxed) == before && file.bytes > 0;
        let mut offset = 0;
        while let Some(chunk) = reader.next_chunk().map_err(|error| error.to_string())? {
            if is_plain {
                counter.fetch_add(chunk.next.offset.saturating_sub(offset), Ordering::Relaxed);
                offset = chunk.next.offset;
            }
            let wires = self.wires(&chunk.requests)?;
            let file = file.clone();
            let read = Read::Chunk {
                file,
                chunk: Box::new(chunk),
                wires,
            };
            if self.give.blocking_send(read).is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn wires(&self, requests: &[Request]) -> Result<Vec<Bytes>, String> {
        requests
            .iter()
            .map(|request| self.compression.apply(&request.body))
            .collect::<std::io::Result<_>>()
            .map_err(|error| error.to_string())
    }
}
