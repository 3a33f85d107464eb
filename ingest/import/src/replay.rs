//! Rejects as sources: each says which file and format its record is of, and where it was, so that its events get the uuids
//! that they would have had.

use crate::files::SourceFile;
use crate::ids::Ids;
use crate::journal::{Known, Refusals};
use crate::plan::Plan;
use crate::reject::Reject;
use millrace_sources::{FileError, Format, Mapping, RecordError};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// What makes events of the records of a file.
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

/// Where records come from, as their rejects say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub file: String,
    /// What its records are.
    pub format: &'static str,
}

/// Of a name as reports have it.
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

/// The sources of a file of rejects.
pub(crate) struct Replay<'a> {
    plan: &'a Plan,
    refusals: &'a Refusals,
    sources: Vec<Source>,
    /// Places in `sources`, by file and format.
    places: HashMap<(String, Format), usize>,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(plan: &'a Plan, refusals: &'a Refusals) -> Self {
        Self {
            plan,
            refusals,
            sources: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// A reject, what is known of it, and the place of its source.
    pub(crate) fn read(&mut self, line: &[u8]) -> Result<(Reject, Known, usize), RecordError> {
        let reject: Reject = serde_json::from_slice(line).map_err(|error| {
            not_a_reject(&format!(
                "This is no line of a file of rejects: {error}. Mend it, or leave it out."
            ))
        })?;
        let format = Format::from_name(&reject.format)
            .ok_or_else(|| not_a_reject(&format!("There is no format {}.", reject.format)))?;
        let place = match self.places.entry((reject.file.clone(), format)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let source = Source::new(reject.file.clone(), format, self.plan);
                self.sources
                    .push(source.map_err(|error| not_a_reject(&error.to_string()))?);
                *new.insert(self.sources.len() - 1)
            }
        };
        let known = self.refusals.of(&reject);
        Ok((reject, known, place))
    }

    pub(crate) fn source(&mut self, place: usize) -> Option<&mut Source> {
        self.sources.get_mut(place)
    }

    /// Of all rejects so far.
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
