//! Lines of a journal: the import that it is of, and the chunks that were imported.

use super::records::RecordSet;
use super::refused_records::RefusedRecords;
use crate::event_counts::EventCounts;
use anyhow::Context;
use millrace_sources::Position;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// A chunk of a file that was imported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedChunk {
    /// Name of the file.
    pub file: String,
    /// Bytes of the file on the disk, by which a changed file is noticed.
    pub file_bytes: u64,
    /// Position of the next chunk.
    pub next: Position,
    /// True if the file ends with this chunk.
    pub is_end: bool,
    /// Number of records in it.
    pub records: u64,
    /// Number of records in it that were skipped on purpose.
    pub skipped: u64,
    /// Events that were made of it.
    pub made: EventCounts,
    /// Events that the mapping generated besides these, which other chunks may have generated too.
    #[serde(default)]
    pub generated: EventCounts,
    /// Events of `made` that the server accepted.
    pub accepted: EventCounts,
    /// Number of refused records by code, those of the mapping and those of the server.
    pub rejected: BTreeMap<String, u64>,
    /// Lists of the refused records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedRecords>,
    /// Number of rejects of earlier chunks that this one sent again, by code.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replayed: BTreeMap<String, u64>,
    /// Replayed records that are no longer refused.
    #[serde(default, skip_serializing_if = "RecordSet::is_empty")]
    pub settled: RecordSet,
    /// Number of records that are not in `records`, as they were counted when they were settled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// Length of the file of rejects with those of this chunk.
    pub rejects_bytes: u64,
}

impl ImportedChunk {
    /// Progress of its file once it is imported.
    pub(super) fn file_progress(&self) -> FileProgress {
        FileProgress {
            next: self.next,
            is_end: self.is_end,
            file_bytes: self.file_bytes,
        }
    }
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the form that serde asks for"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    Import(JournalHeader),
    Passed(Box<ImportedChunk>),
}

/// Visits the whole lines of a journal; returns their bytes.
pub(super) fn lines(path: &Path, mut visit: impl FnMut(Line)) -> anyhow::Result<u64> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
    };
    let mut whole = 0;
    let mut rest = bytes.as_slice();
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let (line, after) = rest.split_at(end + 1);
        match serde_json::from_slice(line) {
            Ok(line) => visit(line),
            // The last line may be torn; an invalid one before it is damage.
            Err(_) if !after.contains(&b'\n') => break,
            Err(error) => {
                return Err(error).with_context(|| format!("{} is damaged", path.display()));
            }
        }
        whole += line.len() as u64;
        rest = after;
    }
    Ok(whole)
}

/// Progress of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileProgress {
    /// Position of the next chunk.
    pub next: Position,
    /// True if the file is done.
    pub is_end: bool,
    /// Bytes of the file when it was read.
    pub file_bytes: u64,
}

/// Identity of an import: a journal is continued only by the same import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalHeader {
    /// Version of the journal's format.
    pub version: u32,
    /// URL of the server.
    pub url: String,
    /// Key of the project that gets the events.
    pub project_key: String,
    /// Source that uuids are made with, and its project.
    pub source: [String; 2],
    /// Digest of the mapping; [`ANY_MAPPING`](super::ANY_MAPPING) for rejects, which are replayed
    /// because the mapping changed.
    pub mapping: String,
}
