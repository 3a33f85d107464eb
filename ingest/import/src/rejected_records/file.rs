//! The file of rejects, which people may edit: it has each refused record once, but for those that
//! they removed.
//!
//! An import appends to the file and syncs it before the journal. After a crash in between, or an
//! edit, its length differs from the one in the journal: then it is rewritten without the records
//! that the journal does not list as refused.

use super::Reject;
use crate::journal::Refusals;
use crate::staging::write_whole;
use anyhow::Context;
use flate2::read::MultiGzDecoder;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// The file of rejects of a running import.
#[derive(Debug)]
pub struct Rejects {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl Rejects {
    /// Opens the file to append to it; `bytes` is its length in the journal.
    ///
    /// # Errors
    /// I/O errors of the disk.
    pub fn open(path: &Path, bytes: u64, journal: &Path) -> anyhow::Result<Self> {
        let length = path.metadata().map_or(0, |metadata| metadata.len());
        if length != bytes && length > 0 {
            let refusals = Refusals::read(journal)?;
            rewrite(path, DedupBy::RecordAndText, &|reject| {
                refusals.keeps(reject)
            })?;
        }
        Self::append_to(path)
    }

    /// Opens the file to append to it, without a check.
    ///
    /// # Errors
    /// I/O errors of the disk.
    pub fn append_to(path: &Path) -> anyhow::Result<Self> {
        let opened = || -> io::Result<(File, u64)> {
            let mut file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(path)?;
            let bytes = file.seek(SeekFrom::End(0))?;
            Ok((file, bytes))
        };
        let (file, bytes) = opened().with_context(|| format!("cannot write {}", path.display()))?;
        let path = path.to_owned();
        Ok(Self { file, path, bytes })
    }

    /// Length of the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends rejects, and syncs. Returns the file's length.
    ///
    /// # Errors
    /// I/O errors of the disk.
    pub fn append(&mut self, rejects: &[Reject]) -> anyhow::Result<u64> {
        if rejects.is_empty() {
            return Ok(self.bytes);
        }
        let mut lines = Vec::new();
        for reject in rejects {
            serde_json::to_writer(&mut lines, reject)?;
            lines.push(b'\n');
        }
        let written = self.file.write_all(&lines);
        let written = written.and_then(|()| self.file.sync_data());
        written.with_context(|| {
            format!(
                "cannot write {}; free some space and run the same command again",
                self.path.display()
            )
        })?;
        self.bytes += lines.len() as u64;
        Ok(self.bytes)
    }
}

/// Criterion by which lines of a file of rejects are duplicates, of which the last stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DedupBy {
    /// Lines of one record.
    Record,
    /// Lines of one record with equal text: of two that differ, a person has to choose.
    RecordAndText,
}

impl DedupBy {
    fn key(self, reject: &Reject) -> (String, u64, u64) {
        let digest = match self {
            Self::Record => 0,
            Self::RecordAndText => xxh3_64(reject.raw.as_bytes()),
        };
        (reject.file.clone(), reject.ordinal, digest)
    }
}

/// Rewrites a file of rejects with those that `keeps` selects, and with unreadable lines, as
/// somebody may be mending them. Returns its length.
///
/// # Errors
/// I/O errors of the disk.
pub(crate) fn rewrite(
    path: &Path,
    dedup: DedupBy,
    keeps: &dyn Fn(&Reject) -> bool,
) -> anyhow::Result<u64> {
    let at = || format!("cannot read {}", path.display());
    let mut last: HashMap<(String, u64, u64), u64> = HashMap::new();
    each_line(path, |number, line| {
        if let Ok(reject) = serde_json::from_slice::<Reject>(line) {
            last.insert(dedup.key(&reject), number);
        }
        Ok(())
    })
    .with_context(at)?;
    write_whole(path, |out| {
        let written = each_line(path, |number, line| {
            let stays = match serde_json::from_slice::<Reject>(line) {
                Ok(reject) => keeps(&reject) && last.get(&dedup.key(&reject)) == Some(&number),
                // A line without its end was torn by a crash.
                Err(_) => line.ends_with(b"\n"),
            };
            if !stays || line.trim_ascii().is_empty() {
                return Ok(());
            }
            out.write_all(line.trim_ascii_end())?;
            out.write_all(b"\n")
        });
        written.with_context(|| format!("cannot write {}", path.display()))
    })
}

fn each_line(path: &Path, mut visit: impl FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut file = BufReader::new(file);
    let mut line = Vec::new();
    for number in 0.. {
        line.clear();
        if file.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        visit(number, &line)?;
    }
    Ok(())
}

/// Converts the compressed file of rejects of an earlier version; `bytes` is its length in the
/// journal.
///
/// # Errors
/// I/O errors of the disk, or the file is damaged.
pub(crate) fn convert(packed: &Path, path: &Path, bytes: u64) -> anyhow::Result<()> {
    if !packed.exists() {
        return Ok(());
    }
    let converted = || -> anyhow::Result<()> {
        if path.exists() {
            // Somebody decompressed and perhaps edited it; or a crash came before the last step.
            std::fs::rename(packed, packed.with_extension("gz.old"))?;
            return Ok(());
        }
        let text = MultiGzDecoder::new(File::open(packed)?.take(bytes));
        write_whole(path, |out| {
            for line in BufReader::new(text).lines() {
                let line = line?;
                match serde_json::from_str::<Reject>(&line) {
                    Ok(reject) => serde_json::to_writer(&mut *out, &reject)?,
                    Err(_) => out.write_all(line.as_bytes())?,
                }
                out.write_all(b"\n")?;
            }
            Ok(())
        })?;
        std::fs::remove_file(packed)?;
        Ok(())
    };
    converted().with_context(|| format!("cannot unpack {}", packed.display()))
}
