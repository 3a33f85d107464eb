//! Journal of an import's progress: a file of lines, one for each chunk of a file whose events were
//! all acknowledged.
//!
//! A line is appended and synced after the responses, never before, so it is true after any crash.
//! Lines of a file follow one another without a gap. A line torn by a crash is ignored.
//!
//! The journal also lists the refused records, and those of them that a resend brought in: people
//! may edit the file of rejects, so nothing is counted by it.

mod lines;
mod lock;
mod records;
mod refusals;
mod refused_records;
#[cfg(test)]
mod tests;

pub use lines::{FileProgress, ImportedChunk, JournalHeader};
pub use lock::Lock;
pub use records::{OrdinalSet, RecordSet};
pub use refusals::{OpenRefusal, RecordStatus, Refusals};
pub use refused_records::{EventState, RefusedRecords};

use crate::files::SourceFile;
use anyhow::{Context, ensure};
use lines::{Line, lines};
use millrace_sources::Position;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Mapping of an import that may be continued with any mapping.
pub const ANY_MAPPING: &str = "any";

/// Content of a journal.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Identity of the import.
    pub header: Option<JournalHeader>,
    /// Progress of each file.
    pub files: HashMap<String, FileProgress>,
    /// Sum of all chunks, without the lists of records.
    pub sum: ImportedChunk,
    /// Records that a resend brought in, whatever their files' progress.
    pub settled: RecordSet,
}

impl Progress {
    /// Position at which to continue a file; `None` when it is done.
    ///
    /// # Errors
    /// The file has another length than it had.
    pub fn of(&self, file: &SourceFile) -> anyhow::Result<Option<Position>> {
        let name = file.name();
        let Some(known) = self.files.get(&name) else {
            return Ok(Some(Position::default()));
        };
        ensure!(
            known.file_bytes == file.bytes,
            "{name} has {} bytes and had {} when its import began. Put the old file back, or import the new one \
             into a staging folder of its own",
            file.bytes,
            known.file_bytes
        );
        Ok((!known.is_end).then_some(known.next))
    }

    fn add(&mut self, imported: &ImportedChunk) {
        self.files
            .insert(imported.file.clone(), imported.file_progress());
        self.settled.merge(&imported.settled);
        let sum = &mut self.sum;
        // Replayed records were counted before.
        let replayed: u64 = imported.replayed.values().sum();
        sum.records += imported
            .records
            .saturating_sub(replayed + imported.left_out);
        for (code, count) in &imported.replayed {
            if let Some(known) = sum.rejected.get_mut(code) {
                *known = known.saturating_sub(*count);
            }
        }
        sum.rejected.retain(|_, count| *count > 0);
        sum.skipped += imported.skipped;
        sum.made.merge(&imported.made);
        sum.generated.merge(&imported.generated);
        sum.accepted.merge(&imported.accepted);
        for (code, count) in &imported.rejected {
            *sum.rejected.entry(code.clone()).or_default() += count;
        }
        sum.rejects_bytes = imported.rejects_bytes;
    }
}

/// Journal of a running import.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Reads a journal; a missing one is empty.
    ///
    /// # Errors
    /// The journal cannot be read, or is damaged.
    pub fn read(path: &Path) -> anyhow::Result<Progress> {
        Ok(read(path)?.0)
    }

    /// Opens the journal to continue it, and returns its progress.
    ///
    /// # Errors
    /// The journal cannot be read or written, or is of another import.
    pub fn open(lock: &Lock, header: &JournalHeader) -> anyhow::Result<(Self, Progress)> {
        let path = lock.path();
        let mut file = lock.file.try_clone()?;
        let (progress, whole_bytes) = read(path)?;
        if let Some(known) = &progress.header {
            ensure_same_import(known, header, path)?;
        }
        file.set_len(whole_bytes)?;
        file.seek(SeekFrom::End(0))?;
        let mut journal = Self {
            file,
            path: path.to_owned(),
        };
        if progress.header.is_none() {
            journal.write(&[Line::Import(header.clone())])?;
            if let Some(folder) = path.parent() {
                File::open(folder)?.sync_all()?;
            }
        }
        Ok((journal, progress))
    }

    /// Appends chunks, and syncs.
    ///
    /// # Errors
    /// I/O errors of the disk.
    pub fn append(&mut self, imported: Vec<ImportedChunk>) -> anyhow::Result<()> {
        let lines: Vec<_> = imported
            .into_iter()
            .map(|imported| Line::Passed(Box::new(imported)))
            .collect();
        self.write(&lines)
    }

    fn write(&mut self, lines: &[Line]) -> anyhow::Result<()> {
        let mut text = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut text, line)?;
            text.push(b'\n');
        }
        let written = self
            .file
            .write_all(&text)
            .and_then(|()| self.file.sync_data());
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

fn ensure_same_import(
    known: &JournalHeader,
    wanted: &JournalHeader,
    path: &Path,
) -> anyhow::Result<()> {
    let is_any = [known, wanted].iter().any(|it| it.mapping == ANY_MAPPING);
    let table = [
        ("address", known.url == wanted.url),
        ("project key", known.project_key == wanted.project_key),
        ("source", is_any || known.source == wanted.source),
        ("mapping", is_any || known.mapping == wanted.mapping),
        ("version", known.version == wanted.version),
    ];
    for (what, is_same) in table {
        ensure!(
            is_same,
            "{} is of an import with another {what}. Go on with that one, or start again with another --staging, or \
             with --restart, after which events that were sent already are sent again under the same uuids",
            path.display()
        );
    }
    Ok(())
}

/// Reads a journal; returns its content and the bytes of its whole lines.
fn read(path: &Path) -> anyhow::Result<(Progress, u64)> {
    let mut progress = Progress::default();
    let whole_bytes = lines(path, |line| match line {
        Line::Import(header) => progress.header = Some(header),
        Line::Passed(imported) => progress.add(&imported),
    })?;
    Ok((progress, whole_bytes))
}
