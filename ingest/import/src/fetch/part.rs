//! One part on its way: into a file of another name, which gets the part's own when it is whole and synced.
//!
//! Where an export can be resumed, the file is gone on with, after a broken transfer as after a crash. Its name has the
//! part's version, so that what is gone on with is the beginning of the same.

use super::ledger::Ledger;
use super::tries::Tries;
use crate::meter::Meter;
use anyhow::bail;
use millrace_sources::{Export, FetchError, Part, Transfer};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

/// The ending of parts that are not whole.
pub(super) const UNFINISHED: &str = ".part";
/// How often a part is tried in a row, without a byte of it, before the stage gives up.
const TRIES_MAX: usize = 12;

/// The name of a part that can be gone on with, while it is not whole.
pub(super) fn unfinished_name(part: &Part) -> Option<String> {
    let version = xxh3_64(part.version.as_ref()?.as_bytes());
    Some(format!("{}.{version:016x}{UNFINISHED}", part.name))
}

pub(super) struct Fetching<'a> {
    pub(super) export: &'a dyn Export,
    pub(super) transfer: &'a Transfer,
    pub(super) meter: &'a Meter,
    pub(super) ledger: &'a Mutex<Ledger>,
    pub(super) folder: &'a Path,
    pub(super) part: Part,
}

impl Fetching<'_> {
    /// Fetches it; gives the bytes that came.
    pub(super) async fn run(&self) -> anyhow::Result<u64> {
        let mut tries = Tries::new(TRIES_MAX);
        let mut came_bytes = 0;
        loop {
            let (bytes, outcome) = self.once().await;
            came_bytes += bytes;
            let Err(error) = outcome else {
                self.meter.part_done();
                return Ok(came_bytes);
            };
            // A part of many gigabytes may break off at every one of them.
            if bytes > 0 && self.is_resumable() {
                tries = Tries::new(TRIES_MAX);
            }
            match tries.after(error, &self.part.name, self.meter).await {
                Ok(()) => {}
                Err(FetchError::Again { message, .. }) => bail!(
                    "{} could not be fetched: {message}\nRun the same command again: it goes on with this part",
                    self.part.name
                ),
                Err(error) => bail!("{} could not be fetched: {error}", self.part.name),
            }
        }
    }

    fn is_resumable(&self) -> bool {
        self.export.is_resumable() && self.part.version.is_some()
    }

    /// The bytes that came, and what became of it.
    async fn once(&self) -> (u64, Result<(), FetchError>) {
        let mut file = match self.open() {
            Ok(file) => file,
            Err(error) => return (0, Err(error.into())),
        };
        let begun_bytes = file.bytes;
        if begun_bytes > 0 {
            self.meter.read_bytes(begun_bytes);
        }
        let fetched = self.fetch(&mut file).await;
        let came_bytes = file.bytes - begun_bytes;
        // What the file has not is asked for again, and counted again then.
        if fetched.is_err() {
            self.meter.unread_bytes(file.bytes);
        }
        (came_bytes, fetched)
    }

    async fn fetch(&self, file: &mut Counted<'_>) -> Result<(), FetchError> {
        let begun_bytes = file.bytes;
        if self.part.bytes != Some(begun_bytes) {
            let fetched = self
                .export
                .fetch(self.transfer, &self.part, begun_bytes, file)
                .await;
            file.inner.flush()?;
            fetched?;
        }
        file.inner.get_ref().sync_all()?;
        std::fs::rename(&file.path, self.folder.join(&self.part.name))?;
        File::open(self.folder)?.sync_all()?;
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(ledger.append(&self.part)?)
    }

    fn open(&self) -> std::io::Result<Counted<'_>> {
        let resumed = unfinished_name(&self.part).filter(|_| self.export.is_resumable());
        let name = resumed
            .clone()
            .unwrap_or_else(|| format!("{}{UNFINISHED}", self.part.name));
        let path = self.folder.join(name);
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let begun_bytes = file.metadata()?.len();
        let is_beginning = resumed.is_some() && self.part.bytes.is_none_or(|it| begun_bytes <= it);
        if !is_beginning {
            file.set_len(0)?;
        }
        Ok(Counted {
            inner: BufWriter::new(file),
            path,
            bytes: if is_beginning { begun_bytes } else { 0 },
            meter: self.meter,
        })
    }
}

/// A file that knows its length.
struct Counted<'a> {
    inner: BufWriter<File>,
    path: PathBuf,
    bytes: u64,
    meter: &'a Meter,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written as u64;
        self.meter
            .bytes_read()
            .fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}
