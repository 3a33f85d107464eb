//! The files of an import: how they are found, and their decompressed bytes.
//!
//! | Module | Holds |
//! |---|---|
//! | `find` | expansion of paths, patterns, folders and archives into files |
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
    /// Path of the file; `-` is standard input.
    pub path: PathBuf,
    /// Name in the archive at `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// Bytes on the disk, compressed as it is; 0 if unknown.
    pub bytes: u64,
}

impl SourceFile {
    /// Name in reports: the path, and after `!` the name in the archive.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.entry {
            Some(entry) => format!("{}!{entry}", self.path.display()),
            None => self.path.display().to_string(),
        }
    }

    /// Bytes on the disk; `None` for standard input and pipes, whose length is known at their end.
    #[must_use]
    pub fn known_bytes(&self) -> Option<u64> {
        (!self.is_stdin() && self.path.is_file()).then_some(self.bytes)
    }

    /// File name without folders and endings of compression: it stays the same when the file is
    /// moved or compressed.
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

    /// Returns true for standard input, which cannot be read twice.
    #[must_use]
    pub fn is_stdin(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    /// Determines the format by the plan or by the first bytes, and opens the decompressed bytes.
    ///
    /// # Errors
    /// The file cannot be read, or its format is unknown.
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
            // Each reject names its format.
            return Ok((Format::Captured, input));
        }
        let (beginning, input) = framing::peek(input)?;
        if beginning.is_empty() {
            // An empty file has no records in any format.
            return Ok((Format::Captured, input));
        }
        let format = Format::detect(&self.stem(), &beginning);
        let format = format.ok_or_else(|| FileError::Malformed {
            offset: 0,
            message: "The format of this file is unknown. Name it with --format.".to_owned(),
        })?;
        Ok((format, input))
    }
}
