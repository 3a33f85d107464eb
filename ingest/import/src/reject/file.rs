//! The file of rejects, which people may edit: each record that is refused is in it once, but for those that they took out.
//!
//! An import appends to it and syncs before its journal says so. A crash in between, or a person, leaves a file of another
//! length than the journal has it: then it is written anew, without what the journal does not have as refused.

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

/// The file of rejects of an import that is under way.
#[derive(Debug)]
pub struct Rejects {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl Rejects {
    /// Opens the file to append to it; `bytes` is its length as the journal has it.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn open(path: &Path, bytes: u64, journal: &Path) -> anyhow::Result<Self> {
        let length = path.metadata().map_or(0, |metadata| metadata.len());
        if length != bytes && length > 0 {
            let refusals = Refusals::read(journal)?;
            rewrite(path, Doubles::OfText, &|reject| refusals.keeps(reject))?;
        }
        Self::append_to(path)
    }

    /// Opens the file as it is to append to it.
    ///
    /// # Errors
    /// Those of the disk.
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

    /// Its length.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends, and syncs. Gives the file's length.
    ///
    /// # Errors
    /// Those of the disk.
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
                "cannot write {}; make room and run the same command again",
                self.path.display()
            )
        })?;
        self.bytes += lines.len() as u64;
        Ok(self.bytes)
    }
}

/// Which lines of a file of rejects are one, of which the last stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubles {
    /// Those of one record.
    OfRecord,
    /// Those of one record that have the same text for it: two that differ are somebody's, who has to choose.
    OfText,
}

impl Doubles {
    fn key(self, reject: &Reject) -> (String, u64, u64) {
        let digest = match self {
            Self::OfRecord => 0,
            Self::OfText => xxh3_64(reject.raw.as_bytes()),
        };
        (reject.file.clone(), reject.ordinal, digest)
    }
}

/// Writes a file of rejects anew: those that are to stay, and lines that cannot be read, as somebody may be mending them.
/// Gives its length.
///
/// # Errors
/// Those of the disk.
pub(crate) fn rewrite(
    path: &Path,
    doubles: Doubles,
    keeps: &dyn Fn(&Reject) -> bool,
) -> anyhow::Result<u64> {
    let at = || format!("cannot read {}", path.display());
    let mut last: HashMap<(String, u64, u64), u64> = HashMap::new();
    each_line(path, |number, line| {
        if let Ok(reject) = serde_json::from_slice::<Reject>(line) {
            last.insert(doubles.key(&reject), number);
        }
        Ok(())
    })
    .with_context(at)?;
    write_whole(path, |out| {
        let written = each_line(path, |number, line| {
            let stays = match serde_json::from_slice::<Reject>(line) {
                Ok(reject) => keeps(&reject) && last.get(&doubles.key(&reject)) == Some(&number),
                // Without its end it is one that a crash tore.
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

/// Makes the file of rejects out of the compressed one of an earlier program, of which the journal has so many bytes.
///
/// # Errors
/// Those of the disk, or when it is damaged.
pub(crate) fn convert(packed: &Path, path: &Path, bytes: u64) -> anyhow::Result<()> {
    if !packed.exists() {
        return Ok(());
    }
    let converted = || -> anyhow::Result<()> {
        if path.exists() {
            // Somebody unpacked it, and may have mended it; or a crash came before the last step.
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
