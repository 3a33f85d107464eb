//! How far an import is: a file of lines, one for each stretch of a file whose events were all acknowledged.
//!
//! A line is appended and synced after the answers, never before, so what it says is true after any crash. Lines of a
//! file follow one another without a gap. A line that a crash tore is no line.
//!
//! It also says which records were refused, and which of them a resend brought in: the file of rejects is people's to
//! edit, and says nothing that is counted.

mod lock;
mod records;
mod refusals;
#[cfg(test)]
mod tests;

pub use lock::Lock;
pub use records::{Records, Runs};
pub use refusals::{EventState, Known, Refusals, Refused, Standing};

use crate::files::SourceFile;
use crate::tally::Tally;
use anyhow::{Context, ensure};
use millrace_sources::Position;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// What an import is: a journal goes on only with the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heading {
    /// Which version of the journal.
    pub version: u32,
    /// Where the events go.
    pub url: String,
    /// Whose they are there.
    pub project_key: String,
    /// The source that uuids are made with, and its project.
    pub source: [String; 2],
    /// A digest of the mapping; [`ANY`] for rejects, which are replayed because the mapping changed.
    pub mapping: String,
}

/// The mapping of those who may have any.
pub const ANY: &str = "any";

/// A stretch of a file that was imported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// Which file.
    pub file: String,
    /// The file's bytes on the disk, so that it is noticed when it changes.
    pub file_bytes: u64,
    /// Where the next stretch begins.
    pub next: Position,
    /// Whether the file ends there.
    pub is_end: bool,
    /// Records in it.
    pub records: u64,
    /// Records in it that were left out on purpose.
    pub skipped: u64,
    /// Events that were made of it.
    pub made: Tally,
    /// Events that the mapping made beside these, which other stretches may have made too.
    #[serde(default)]
    pub generated: Tally,
    /// Events of `made` that the server accepted.
    pub accepted: Tally,
    /// Records that were refused by code, those of the mapping and those of the server.
    pub rejected: BTreeMap<String, u64>,
    /// Which records these are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
    /// Rejects of earlier stretches that this one sent again, by code.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replayed: BTreeMap<String, u64>,
    /// Which of these are refused no more.
    #[serde(default, skip_serializing_if = "Records::is_empty")]
    pub settled: Records,
    /// Records that are not of `records` as they were counted when they were settled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// Length of the file of rejects with those of this stretch.
    pub rejects_bytes: u64,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the form that serde asks for"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Passed {
    /// How far its file is with it.
    fn at(&self) -> FileProgress {
        FileProgress {
            next: self.next,
            is_end: self.is_end,
            file_bytes: self.file_bytes,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Import(Heading),
    Passed(Box<Passed>),
}

/// All that a journal says.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// What it is of.
    pub heading: Option<Heading>,
    /// Where each file goes on.
    pub files: HashMap<String, FileProgress>,
    /// The sum of all stretches, but for the records themselves.
    pub sum: Passed,
    /// The records that a resend brought in, whatever their files say.
    pub settled: Records,
}

/// How far a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileProgress {
    /// Where it goes on.
    pub next: Position,
    /// Whether it is done.
    pub is_end: bool,
    /// Its bytes when it was read.
    pub file_bytes: u64,
}

impl Progress {
    /// Where a file goes on; `None` when it is done.
    ///
    /// # Errors
    /// When it is another file than it was.
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

    fn add(&mut self, passed: &Passed) {
        self.files.insert(passed.file.clone(), passed.at());
        self.settled.merge(&passed.settled);
        let sum = &mut self.sum;
        // A record that is replayed was counted before.
        let replayed: u64 = passed.replayed.values().sum();
        sum.records += passed.records.saturating_sub(replayed + passed.left_out);
        for (code, count) in &passed.replayed {
            if let Some(known) = sum.rejected.get_mut(code) {
                *known = known.saturating_sub(*count);
            }
        }
        sum.rejected.retain(|_, count| *count > 0);
        sum.skipped += passed.skipped;
        sum.made.merge(&passed.made);
        sum.generated.merge(&passed.generated);
        sum.accepted.merge(&passed.accepted);
        for (code, count) in &passed.rejected {
            *sum.rejected.entry(code.clone()).or_default() += count;
        }
        sum.rejects_bytes = passed.rejects_bytes;
    }
}

/// The journal of an import that is under way.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Reads a journal; an empty one when there is none.
    ///
    /// # Errors
    /// When it cannot be read, or is none.
    pub fn read(path: &Path) -> anyhow::Result<Progress> {
        Ok(read(path)?.0)
    }

    /// Opens it to go on with it, and says how far it is.
    ///
    /// # Errors
    /// When it cannot be read or written, or is of another import.
    pub fn open(lock: &Lock, heading: &Heading) -> anyhow::Result<(Self, Progress)> {
        let path = lock.path();
        let mut file = lock.file.try_clone()?;
        let (progress, whole_bytes) = read(path)?;
        if let Some(known) = &progress.heading {
            same(known, heading, path)?;
        }
        file.set_len(whole_bytes)?;
        file.seek(SeekFrom::End(0))?;
        let mut journal = Self {
            file,
            path: path.to_owned(),
        };
        if progress.heading.is_none() {
            journal.write(&[Line::Import(heading.clone())])?;
            if let Some(folder) = path.parent() {
                File::open(folder)?.sync_all()?;
            }
        }
        Ok((journal, progress))
    }

    /// Appends stretches, and syncs.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn append(&mut self, passed: Vec<Passed>) -> anyhow::Result<()> {
        let lines: Vec<_> = passed
            .into_iter()
            .map(|passed| Line::Passed(Box::new(passed)))
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

fn same(known: &Heading, wanted: &Heading, path: &Path) -> anyhow::Result<()> {
    let is_any = [known, wanted].iter().any(|it| it.mapping == ANY);
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
            "{} is of an import with another {what}. Go on with that one, or begin anew with another --staging, or \
             with --restart, after which events that were sent already are sent again under the same uuids",
            path.display()
        );
    }
    Ok(())
}

/// What a journal says, and the bytes of its whole lines.
fn read(path: &Path) -> anyhow::Result<(Progress, u64)> {
    let mut progress = Progress::default();
    let whole_bytes = lines(path, |line| match line {
        Line::Import(heading) => progress.heading = Some(heading),
        Line::Passed(passed) => progress.add(&passed),
    })?;
    Ok((progress, whole_bytes))
}

/// Hands out the whole lines of a journal, and gives their bytes.
fn lines(path: &Path, mut visit: impl FnMut(Line)) -> anyhow::Result<u64> {
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
        let (line, behind) = rest.split_at(end + 1);
        match serde_json::from_slice(line) {
            Ok(line) => visit(line),
            // The last lines may be torn; one before others that are whole is damage.
            Err(_) if !behind.contains(&b'\n') => break,
            Err(error) => {
                return Err(error).with_context(|| format!("{} is damaged", path.display()));
            }
        }
        whole += line.len() as u64;
        rest = behind;
    }
    Ok(whole)
}
