//! Replay of rejects: each names its record's file, format and position, so that its events get the
//! uuids that they would have had.

use crate::files::SourceFile;
use crate::ids::Ids;
use crate::journal::{RecordStatus, Refusals};
use crate::plan::Plan;
use crate::rejected_records::Reject;
use millrace_sources::{FileError, Format, Mapping, RecordError};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Mapping of one file's records to events.
pub(crate) struct Source {
    pub file: String,
    pub stem: String,
    pub format: Format,
    pub mapping: Box<dyn Mapping>,
    pub ids: Ids,
}

impl Source {
    pub(crate) fn new(file: String, format: Format, plan: &Plan) -> Result<Self, FileError> {
        let mapping = format.mapping(&plan.options);
        let mapping = mapping.map_err(|error| FileError::Malformed {
            offset: 0,
            message: error.to_string(),
        })?;
        Ok(Self {
            stem: stem_of(&file),
            file,
            format,
            mapping,
            ids: Ids::new(format.name(), &plan.project),
        })
    }

    pub(crate) fn origin(&self) -> Origin {
        Origin {
            file: self.file.clone(),
            format: self.format.name(),
        }
    }
}

/// File and format of records, as their rejects name them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Name of the file.
    pub file: String,
    /// Format of the file.
    pub format: &'static str,
}

/// Stem of a file by its name in reports.
fn stem_of(name: &str) -> String {
    let (path, entry) = match name.split_once('!') {
        Some((path, entry)) => (path, Some(entry.to_owned())),
        None => (name, None),
    };
    let file = SourceFile {
        path: path.into(),
        entry,
        bytes: 0,
    };
    file.stem()
}

/// Sources that a file of rejects names.
pub(crate) struct Replay<'a> {
    plan: &'a Plan,
    refusals: &'a Refusals,
    sources: Vec<Source>,
    /// Indexes into `sources`, by file and format.
    indexes: HashMap<(String, Format), usize>,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(plan: &'a Plan, refusals: &'a Refusals) -> Self {
        Self {
            plan,
            refusals,
            sources: Vec::new(),
            indexes: HashMap::new(),
        }
    }

    /// Reads a line; returns the reject, its record's status, and the index of its source.
    pub(crate) fn read(
        &mut self,
        line: &[u8],
    ) -> Result<(Reject, RecordStatus, usize), RecordError> {
        let reject: Reject = serde_json::from_slice(line).map_err(|error| {
            not_a_reject(&format!(
                "This is not a line of a file of rejects: {error}. Correct or omit it."
            ))
        })?;
        let format = Format::from_name(&reject.format)
            .ok_or_else(|| not_a_reject(&format!("There is no format {}.", reject.format)))?;
        let index = match self.indexes.entry((reject.file.clone(), format)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let source = Source::new(reject.file.clone(), format, self.plan);
                self.sources
                    .push(source.map_err(|error| not_a_reject(&error.to_string()))?);
                *new.insert(self.sources.len() - 1)
            }
        };
        let status = self.refusals.status(&reject);
        Ok((reject, status, index))
    }

    pub(crate) fn source(&mut self, index: usize) -> Option<&mut Source> {
        self.sources.get_mut(index)
    }

    /// Origins of all rejects read so far.
    pub(crate) fn origins(&self) -> Vec<Origin> {
        self.sources.iter().map(Source::origin).collect()
    }
}

fn not_a_reject(message: &str) -> RecordError {
    RecordError {
        code: "invalid_reject",
        field: None,
        message: message.to_owned(),
    }
}
