//! Records that gave no event: kept with the reason, to be mended and replayed.
//!
//! The file of rejects is NDJSON, compressed by gzip in members: each append is a member of its own, so that the file
//! ends between two of them whatever happened, and is cut back to where the journal says.

use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;
use millrace_sources::Position;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A record that gave no event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reject {
    /// Its file.
    pub file: String,
    /// Its line, from 1.
    pub line: u64,
    /// Where it begins in the decompressed file.
    pub byte_offset: u64,
    /// Which record of the file it is, from 0.
    pub ordinal: u64,
    /// What the records of the file are, such as `mixpanel`.
    pub format: String,
    /// Who refused it.
    pub by: By,
    /// Which rule it breaks.
    pub code: String,
    /// In which field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The same for people, with what to do.
    pub message: String,
    /// The record. What is not UTF-8 in it is replaced, and cannot be replayed.
    pub raw: String,
}

/// Who refused a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// It became no event.
    Mapping,
    /// Its event was sent.
    Server,
}

/// Why a record gave no event, and where it is.
#[derive(Clone, Copy, Debug)]
pub struct Reason<'a> {
    /// Who refused it.
    pub by: By,
    /// Which rule it breaks.
    pub code: &'a str,
    /// In which field.
    pub field: Option<&'a str>,
    /// For people.
    pub message: &'a str,
}

impl Reject {
    /// Of a record at a place.
    #[must_use]
    pub fn new(file: &str, format: &str, at: Position, raw: &[u8], reason: Reason<'_>) -> Self {
        Self {
            file: file.to_owned(),
            line: at.line + 1,
            byte_offset: at.offset,
            ordinal: at.ordinal,
            format: format.to_owned(),
            by: reason.by,
            code: reason.code.to_owned(),
            field: reason.field.map(str::to_owned),
            message: reason.message.to_owned(),
            raw: match String::from_utf8_lossy(raw) {
                Cow::Borrowed(text) => text.to_owned(),
                Cow::Owned(text) => text,
            },
        }
    }
}

impl Reject {
    /// Where the record is in its file.
    #[must_use]
    pub fn position(&self) -> Position {
        Position {
            offset: self.byte_offset,
            ordinal: self.ordinal,
            line: self.line.saturating_sub(1),
        }
    }
}

/// The file of rejects of an import.
#[derive(Debug)]
pub struct Rejects {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl Rejects {
    /// Opens the file and cuts off what is behind `bytes`, which nobody has recorded.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn open(path: &Path, bytes: u64) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)?;
        // It is shorter when it was moved away to be replayed.
        let bytes = bytes.min(file.metadata()?.len());
        file.set_len(bytes)?;
        file.seek(SeekFrom::End(0))?;
        let path = path.to_owned();
        Ok(Self { file, path, bytes })
    }

    /// Appends, and syncs. Gives the file's length.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn append(&mut self, rejects: &[Reject]) -> anyhow::Result<u64> {
        if rejects.is_empty() {
            return Ok(self.bytes);
        }
        let mut member = GzEncoder::new(Vec::new(), Compression::default());
        for reject in rejects {
            serde_json::to_writer(&mut member, reject)?;
            member.write_all(b"\n")?;
        }
        let member = member.finish()?;
        let written = self.file.write_all(&member);
        let written = written.and_then(|()| self.file.sync_data());
        written.with_context(|| {
            format!(
                "cannot write {}; make room and run the same command again",
                self.path.display()
            )
        })?;
        self.bytes += member.len() as u64;
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::MultiGzDecoder;
    use std::io::Read;

    fn reject(raw: &[u8]) -> Reject {
        let reason = Reason {
            by: By::Mapping,
            code: "invalid_json",
            field: None,
            message: "No.",
        };
        Reject::new("a", "captured", Position::default(), raw, reason)
    }

    fn read(path: &Path) -> Vec<Reject> {
        let mut text = String::new();
        let file = File::open(path).unwrap();
        MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn what_nobody_recorded_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rejects.ndjson.gz");
        let mut rejects = Rejects::open(&path, 0).unwrap();
        let kept = rejects.append(&[reject(b"a"), reject(b"\xff")]).unwrap();
        assert_eq!(rejects.append(&[]).unwrap(), kept);
        rejects.append(&[reject(b"lost")]).unwrap();
        let mut rejects = Rejects::open(&path, kept).unwrap();
        rejects.append(&[reject(b"b")]).unwrap();
        let raws: Vec<_> = read(&path).into_iter().map(|it| it.raw).collect();
        assert_eq!(raws, ["a", "\u{fffd}", "b"]);
        assert_eq!(read(&path)[0].line, 1);
    }
}
