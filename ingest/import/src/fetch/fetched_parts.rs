//! List of the parts in the staging folder, a file of lines.
//!
//! The first line names the source, so that parts of two sources with the same names are never
//! confused. Each of the others names a part and the version that was fetched.
//!
//! A line is appended after its part was renamed to its final name. A crash between the two costs
//! one more transfer.

use crate::staging::Staging;
use anyhow::{Context, bail};
use millrace_sources::Part;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

const NAME: &str = "fetched.ndjson";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Source(String),
    Part { name: String, version: String },
}

/// State of a part in the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartState {
    /// The part is there.
    Present,
    /// A file is there, but of another version, or the list does not name it.
    Changed,
    /// The part is not there.
    Missing,
}

/// The list's file, locked by one process at a time.
#[derive(Debug)]
pub(super) struct FetchedParts {
    file: File,
    versions: HashMap<String, String>,
}

impl FetchedParts {
    /// Opens the list in a staging folder, for parts of the given source.
    pub(super) fn open(staging: &Staging, source: &str) -> anyhow::Result<Self> {
        let path = staging.file(NAME);
        let failed = || format!("cannot open {}", path.display());
        let mut options = OpenOptions::new();
        let mut file = options
            .create(true)
            .read(true)
            .append(true)
            .open(&path)
            .with_context(failed)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!(
                "another fetch into {} is under way; wait for it, or name another folder with --staging",
                staging.path().display()
            );
        }
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(failed)?;
        let mut versions = HashMap::new();
        let mut known = None;
        // A line torn by a crash is ignored.
        for line in text.lines().filter_map(|it| serde_json::from_str(it).ok()) {
            match line {
                Line::Source(source) => known = Some(source),
                Line::Part { name, version } => {
                    versions.insert(name, version);
                }
            }
        }
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n")?;
        }
        match known {
            Some(known) if known != source => bail!(
                "{} has parts of another source, {known}. Fetch {source} into another folder with --staging",
                staging.path().display()
            ),
            Some(_) => {}
            None => append(&mut file, &Line::Source(source.to_owned()))?,
        }
        Ok(Self { file, versions })
    }

    /// State of a part whose file would be in `folder`.
    pub(super) fn state(&self, folder: &Path, part: &Part) -> PartState {
        let is_same = self.versions.get(&part.name) == part.version.as_ref();
        match (folder.join(&part.name).exists(), is_same) {
            (true, true) => PartState::Present,
            (true, false) => PartState::Changed,
            (false, _) => PartState::Missing,
        }
    }

    /// Records that the current version of a part is in the folder.
    pub(super) fn append(&mut self, part: &Part) -> io::Result<()> {
        let Some(version) = &part.version else {
            return Ok(());
        };
        let (name, version) = (part.name.clone(), version.clone());
        append(&mut self.file, &Line::Part { name, version })
    }
}

fn append(file: &mut File, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    file.write_all(&text)?;
    file.sync_data()
}
