//! Status of each refused record, by its file and its ordinal there. A resend follows it, so that
//! no record is counted or sent twice.

use super::lines::{FileProgress, ImportedChunk, Line, lines};
use super::records::RecordSet;
use super::refused_records::EventState;
use crate::rejected_records::{Reject, RejectedBy};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// A refusal that still stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRefusal {
    /// Code of the rule that the record breaks, as it is counted.
    pub code: Arc<str>,
    /// State that its event reached.
    pub event: EventState,
}

/// Status of a record in an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordStatus {
    /// The record is refused.
    Refused(OpenRefusal),
    /// The event was accepted, or the record was skipped on purpose.
    Settled,
    /// The import has not read the record.
    New,
}

/// Refused records of a journal.
#[derive(Debug, Default)]
pub struct Refusals {
    refused: HashMap<String, HashMap<u64, OpenRefusal>>,
    settled: RecordSet,
    /// Progress of each file.
    read: HashMap<String, FileProgress>,
    /// True if an earlier version wrote a part of the journal: it counted refused records without
    /// listing them.
    is_part_unlisted: bool,
}

impl Refusals {
    /// Reads the refused records of a journal.
    ///
    /// # Errors
    /// The journal cannot be read, or is damaged.
    pub fn read(journal: &Path) -> anyhow::Result<Self> {
        let mut refusals = Self::default();
        let mut codes: HashMap<String, Arc<str>> = HashMap::new();
        lines(journal, |line| {
            if let Line::Passed(imported) = line {
                refusals.add(*imported, &mut codes);
            }
        })?;
        Ok(refusals)
    }

    fn add(&mut self, imported: ImportedChunk, codes: &mut HashMap<String, Arc<str>>) {
        self.read
            .insert(imported.file.clone(), imported.file_progress());
        self.is_part_unlisted |= imported.refused.is_empty() && !imported.rejected.is_empty();
        for list in imported.refused {
            let code = codes
                .entry(list.code)
                .or_insert_with_key(|code| Arc::from(code.as_str()));
            let of_file = self.refused.entry(list.file).or_default();
            for ordinal in list.ordinals.iter() {
                let open_refusal = OpenRefusal {
                    code: Arc::clone(code),
                    event: list.event,
                };
                of_file.insert(ordinal, open_refusal);
            }
        }
        self.settled.merge(&imported.settled);
    }

    /// Status of the record of a reject.
    #[must_use]
    pub fn status(&self, reject: &Reject) -> RecordStatus {
        let (file, ordinal) = (&reject.file, reject.ordinal);
        if self.settled.contains(file, ordinal) {
            return RecordStatus::Settled;
        }
        let listed = self.refused.get(file).and_then(|it| it.get(&ordinal));
        if let Some(open_refusal) = listed {
            return RecordStatus::Refused(open_refusal.clone());
        }
        if self.is_part_unlisted {
            return RecordStatus::Refused(OpenRefusal {
                code: Arc::from(reject.code.as_str()),
                event: match reject.by {
                    RejectedBy::Mapping => EventState::None,
                    RejectedBy::Server => EventState::Made,
                },
            });
        }
        match self.read.get(file) {
            Some(read) if ordinal < read.next.ordinal => RecordStatus::Settled,
            _ => RecordStatus::New,
        }
    }

    /// Returns true if a reject belongs in the file of rejects: the journal lists it as refused.
    #[must_use]
    pub fn keeps(&self, reject: &Reject) -> bool {
        let is_listed = || {
            let of_file = self.refused.get(&reject.file);
            of_file.is_some_and(|it| it.contains_key(&reject.ordinal))
        };
        match self.status(reject) {
            RecordStatus::Refused(_) if is_listed() => true,
            // Not listed: its chunk was not recorded, and is read again.
            RecordStatus::Refused(_) => self
                .read
                .get(&reject.file)
                .is_none_or(|read| read.is_end || reject.ordinal < read.next.ordinal),
            RecordStatus::Settled | RecordStatus::New => false,
        }
    }

    /// Number of records of a file of rejects that an earlier version sent again without listing
    /// them.
    #[must_use]
    pub fn resent_unlisted(&self, file: &str, file_bytes: u64) -> u64 {
        match self.read.get(file) {
            Some(read) if self.is_part_unlisted && !read.is_end => read.next.ordinal,
            Some(read) if self.is_part_unlisted && read.file_bytes == file_bytes => u64::MAX,
            _ => 0,
        }
    }
}
