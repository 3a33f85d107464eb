//! The files of an import: which there are, and their decompressed bytes.
//!
//! | Module | Holds |
//! |---|---|
//! | `find` | paths, patterns, folders and archives into files |
//! | `open` | decompression |
//! | `archive` | zip files |

mod archive;
mod find;
mod open;

pub use find::{FindError, find};

use crate::plan::Plan;
use millrace_sources::{FileError, Format, Input, framing};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// One file to import: on a disk, in a zip archive, or standard input.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SourceFile {
    /// Where it is; `-` is standard input.
    pub path: PathBuf,
    /// Its name in the archive at `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// Its bytes on the disk, compressed as it is; 0 where nobody knows.
    pub bytes: u64,
}

impl SourceFile {
    /// How it is called in reports: the path, and behind `!` what it is in an archive.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.entry {
            Some(entry) => format!("{}!{entry}", self.path.display()),
            None => self.path.display().to_string(),
        }
    }

    /// Its bytes on the disk; standard input and pipes do not say before their end.
    #[must_use]
    pub fn known_bytes(&self) -> Option<u64> {
        (!self.is_stdin() && self.path.is_file()).then_some(self.bytes)
    }

    /// Its own name without folders and endings of compression: what stays when the same file is moved, or packed.
    #[must_use]
    pub fn stem(&self) -> String {
        let name = match &self.entry {
            Some(entry) => entry.rsplit('/').next().map(str::to_owned),
            None => self
                .path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned()),
        };
        let mut name = name.unwrap_or_else(|| self.name());
        for ending in [".gz", ".zst"] {
            if let Some(shorter) = name.strip_suffix(ending) {
                name = shorter.to_owned();
            }
        }
        name
    }

    /// Whether it is standard input, which cannot be read twice.
    #[must_use]
    pub fn is_stdin(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    /// What it is, by the plan or by its first bytes, and its decompressed bytes from the beginning.
    ///
    /// # Errors
    /// When it cannot be read, or nobody knows what it is.
    pub fn format(
        &self,
        plan: &Plan,
        read_bytes: &Arc<AtomicU64>,
    ) -> Result<(Format, Input), FileError> {
        let input = self.open(read_bytes)?;
        if let Some(format) = plan.format {
            return Ok((format, input));
        }
        if plan.is_replay {
            // Each reject says what it is.
            return Ok((Format::Captured, input));
        }
        let (beginning, input) = framing::peek(input)?;
        if beginning.is_empty() {
            // What has nothing in it has no record, whatever it would be.
            return Ok((Format::Captured, input));
        }
        let format = Format::guess(&self.stem(), &beginning);
        let format = format.ok_or_else(|| FileError::Malformed {
            offset: 0,
            message: "Nothing says what this file is. Name its format with --format.".to_owned(),
        })?;
        Ok((format, input))
    }
}
