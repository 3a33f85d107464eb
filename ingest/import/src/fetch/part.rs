//! Fetches one part into a temporary file, which gets the part's name when it is whole and synced.
//!
//! If an export can be resumed, the file is continued after a broken transfer or a crash. Its name
//! contains the part's version, so that only the same version is continued.

use super::fetched_parts::FetchedParts;
use super::retries::Retries;
use crate::stats::StageStats;
use anyhow::bail;
use millrace_sources::{Export, FetchError, Part, Transfer};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

/// Ending of the file of an unfinished part.
pub(super) const UNFINISHED: &str = ".part";
/// Attempts in a row without a byte of a part, before the fetch gives up.
const TRIES_MAX: usize = 12;

/// File name of an unfinished part that can be resumed.
pub(super) fn unfinished_name(part: &Part) -> Option<String> {
    let version = xxh3_64(part.version.as_ref()?.as_bytes());
    Some(format!("{}.{version:016x}{UNFINISHED}", part.name))
}

pub(super) struct PartFetch<'a> {
    pub(super) export: &'a dyn Export,
    pub(super) transfer: &'a Transfer,
    pub(super) stats: &'a StageStats,
    pub(super) fetched_parts: &'a Mutex<FetchedParts>,
    pub(super) folder: &'a Path,
    pub(super) part: Part,
}

impl PartFetch<'_> {
    /// Fetches the part; returns the bytes transferred.
    pub(super) async fn run(&self) -> anyhow::Result<u64> {
        let mut retries = Retries::new(TRIES_MAX);
        let mut came_bytes = 0;
        loop {
            let (bytes, outcome) = self.once().await;
            came_bytes += bytes;
            let Err(error) = outcome else {
                self.stats.part_done();
                return Ok(came_bytes);
            };
            // Start counting again: a part of many gigabytes may break off at each of them.
            if bytes > 0 && self.is_resumable() {
                retries = Retries::new(TRIES_MAX);
            }
            match retries.wait_after(error, &self.part.name, self.stats).await {
                Ok(()) => {}
                Err(FetchError::Retryable { message, .. }) => bail!(
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

    /// Makes one attempt; returns the bytes transferred and the outcome.
    async fn once(&self) -> (u64, Result<(), FetchError>) {
        let mut file = match self.open() {
            Ok(file) => file,
            Err(error) => return (0, Err(error.into())),
        };
        let begun_bytes = file.bytes;
        if begun_bytes > 0 {
            self.stats.read_bytes(begun_bytes);
        }
        let fetched = self.fetch(&mut file).await;
        let came_bytes = file.bytes - begun_bytes;
        // The next attempt counts the file's bytes again.
        if fetched.is_err() {
            self.stats.unread_bytes(file.bytes);
        }
        (came_bytes, fetched)
    }

    async fn fetch(&self, file: &mut CountedFile<'_>) -> Result<(), FetchError> {
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
        let mut fetched_parts = self
            .fetched_parts
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Ok(fetched_parts.append(&self.part)?)
    }

    fn open(&self) -> std::io::Result<CountedFile<'_>> {
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
        Ok(CountedFile {
            inner: BufWriter::new(file),
            path,
            bytes: if is_beginning { begun_bytes } else { 0 },
            stats: self.stats,
        })
    }
}

/// Writes a file and counts its bytes.
struct CountedFile<'a> {
    inner: BufWriter<File>,
    path: PathBuf,
    bytes: u64,
    stats: &'a StageStats,
}

impl Write for CountedFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written as u64;
        self.stats
            .bytes_read()
            .fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}
