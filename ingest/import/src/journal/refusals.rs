//! What became of each record that was refused, by its file and its ordinal there: what a resend goes by, so that none is
//! counted or sent twice.

use super::records::{Records, Runs};
use super::{FileProgress, Line, Passed, lines};
use crate::reject::{By, Reject};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// How far the event of a refused record got, and so how it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventState {
    /// None was made.
    None,
    /// It was made, and refused.
    Made,
    /// It was accepted; what was refused is an event that the mapping made beside it.
    Accepted,
}

/// Records of a file that a stretch refused for the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Their file.
    pub file: String,
    /// Which rule they break.
    pub code: String,
    /// How far their events got.
    pub event: EventState,
    /// Which they are.
    pub ordinals: Runs,
}

/// A record that is refused as yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The rule that it breaks, as it is counted.
    pub code: Arc<str>,
    /// How far its event got.
    pub event: EventState,
}

/// What an import knows of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// It is refused.
    Refused(Standing),
    /// Its event was accepted, or it was left out on purpose.
    Settled,
    /// The import has not come by it.
    New,
}

/// The records that were refused, as a journal has them.
#[derive(Debug, Default)]
pub struct Refusals {
    refused: HashMap<String, HashMap<u64, Standing>>,
    settled: Records,
    /// How far each file was read.
    read: HashMap<String, FileProgress>,
    /// Whether an earlier program wrote a part of the journal: it counted what was refused, and did not list it.
    is_part_unlisted: bool,
}

impl Refusals {
    /// Reads them from a journal.
    ///
    /// # Errors
    /// When it cannot be read, or is none.
    pub fn read(journal: &Path) -> anyhow::Result<Self> {
        let mut refusals = Self::default();
        let mut codes: HashMap<String, Arc<str>> = HashMap::new();
        lines(journal, |line| {
            if let Line::Passed(passed) = line {
                refusals.add(*passed, &mut codes);
            }
        })?;
        Ok(refusals)
    }

    fn add(&mut self, passed: Passed, codes: &mut HashMap<String, Arc<str>>) {
        self.read.insert(passed.file.clone(), passed.at());
        self.is_part_unlisted |= passed.refused.is_empty() && !passed.rejected.is_empty();
        for list in passed.refused {
            let code = codes
                .entry(list.code)
                .or_insert_with_key(|code| Arc::from(code.as_str()));
            let of_file = self.refused.entry(list.file).or_default();
            for ordinal in list.ordinals.iter() {
                let standing = Standing {
                    code: Arc::clone(code),
                    event: list.event,
                };
                of_file.insert(ordinal, standing);
            }
        }
        self.settled.merge(&passed.settled);
    }

    /// What is known of the record of a reject.
    #[must_use]
    pub fn of(&self, reject: &Reject) -> Known {
        let (file, ordinal) = (&reject.file, reject.ordinal);
        if self.settled.contains(file, ordinal) {
            return Known::Settled;
        }
        let listed = self.refused.get(file).and_then(|it| it.get(&ordinal));
        if let Some(standing) = listed {
            return Known::Refused(standing.clone());
        }
        if self.is_part_unlisted {
            return Known::Refused(Standing {
                code: Arc::from(reject.code.as_str()),
                event: match reject.by {
                    By::Mapping => EventState::None,
                    By::Server => EventState::Made,
                },
            });
        }
        match self.read.get(file) {
            Some(read) if ordinal < read.next.ordinal => Known::Settled,
            _ => Known::New,
        }
    }

    /// Whether a reject belongs into the file of rejects: it is refused, and the journal says so.
    #[must_use]
    pub fn keeps(&self, reject: &Reject) -> bool {
        let is_listed = || {
            let of_file = self.refused.get(&reject.file);
            of_file.is_some_and(|it| it.contains_key(&reject.ordinal))
        };
        match self.of(reject) {
            Known::Refused(_) if is_listed() => true,
            // Of a stretch that was not recorded, which is read again.
            Known::Refused(_) => self
                .read
                .get(&reject.file)
                .is_none_or(|read| read.is_end || reject.ordinal < read.next.ordinal),
            Known::Settled | Known::New => false,
        }
    }

    /// How many records of a file of rejects an earlier program sent again: it did not list which.
    #[must_use]
    pub fn resent_unlisted(&self, file: &str, file_bytes: u64) -> u64 {
        match self.read.get(file) {
            Some(read) if self.is_part_unlisted && !read.is_end => read.next.ordinal,
            Some(read) if self.is_part_unlisted && read.file_bytes == file_bytes => u64::MAX,
            _ => 0,
        }
    }
}
