//! What survives a restart of the shipper.
//!
//! The log is read again from `low`. A section of a key at or before the key's place in `taken` is
//! in ClickHouse, unless it is in one of the ranges `in_flight`: of those nobody knows.
//!
//! The checkpoint is stored before an insert is sent, so every insert that was ever sent under a
//! token is either settled or in `in_flight` with that token's attempt.

use super::section::{Key, Place};
use super::unit::RowRange;
use millrace_log::Position;
use millrace_rows::Month;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The only version so far.
const VERSION: u32 = 1;

/// The state of a lane, as the log keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Tells this log from another one that lay in the same folder under the same node name
    /// before: tokens must never come back.
    pub salt: u32,
    /// Everything below is in ClickHouse.
    pub low: Position,
    /// Below this nobody knew what was shipped when the lane began, as an earlier checkpoint was lost.
    pub suspect_below: Position,
    /// Up to where sections have been taken, by key.
    pub taken: Vec<(Key, Place)>,
    /// What was taken and is not settled.
    pub in_flight: Vec<Range>,
}

/// An insert whose outcome is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    pub key: Key,
    pub first: Place,
    pub last: Place,
    pub rows: Option<RowRange>,
    /// See [`Unit::start_mark`](super::unit::Unit::start_mark).
    pub start_mark: Option<u32>,
    pub attempt: u32,
    /// See [`Unit::is_suspect`](super::unit::Unit::is_suspect).
    pub is_suspect: bool,
    /// See [`Unit::is_part`](super::unit::Unit::is_part).
    pub is_part: bool,
    pub run: Option<Uuid>,
}

/// Bytes that are not a checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Not JSON, or not ours.
    #[error("the checkpoint cannot be read: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A newer Millrace wrote it.
    #[error("the checkpoint has version {0}, this Millrace knows version {VERSION}")]
    Newer(u32),
}

impl Checkpoint {
    /// As bytes.
    ///
    /// # Errors
    /// Never for a checkpoint of a lane; the encoder says so.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CheckpointError> {
        Ok(serde_json::to_vec(&Stored::of(self))?)
    }

    /// The inverse of [`Checkpoint::to_bytes`].
    ///
    /// # Errors
    /// If the bytes are not a checkpoint of a version that is known.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CheckpointError> {
        let stored: Stored = serde_json::from_slice(bytes)?;
        if stored.version != VERSION {
            return Err(CheckpointError::Newer(stored.version));
        }
        Ok(stored.into_checkpoint())
    }
}

/// Where a section lies: segment, offset, number.
type StoredPlace = (u64, u64, u32);

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    salt: u32,
    low: (u64, u64),
    suspect_below: (u64, u64),
    /// Every insert target once; the rest names them by number.
    targets: Vec<String>,
    taken: Vec<(usize, u32, StoredPlace)>,
    in_flight: Vec<StoredRange>,
}

#[derive(Serialize, Deserialize)]
struct StoredRange {
    target: usize,
    month: u32,
    first: StoredPlace,
    last: StoredPlace,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    rows: Option<(u32, u32)>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    start_mark: Option<u32>,
    attempt: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    is_suspect: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    is_part: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    run: Option<Uuid>,
}

impl Stored {
    fn of(checkpoint: &Checkpoint) -> Self {
        let mut targets: Vec<String> = Vec::new();
        let mut number = |key: &Key| {
            let known = targets
                .iter()
                .position(|target| **target == *key.insert_target);
            known.unwrap_or_else(|| {
                targets.push(key.insert_target.to_string());
                targets.len() - 1
            })
        };
        let taken = checkpoint
            .taken
            .iter()
            .map(|(key, place)| (number(key), key.month.0, stored_place(*place)))
            .collect();
        let in_flight = checkpoint
            .in_flight
            .iter()
            .map(|range| StoredRange {
                target: number(&range.key),
                month: range.key.month.0,
                first: stored_place(range.first),
                last: stored_place(range.last),
                rows: range.rows.map(|rows| (rows.from, rows.to)),
                start_mark: range.start_mark,
                attempt: range.attempt,
                is_suspect: range.is_suspect,
                is_part: range.is_part,
                run: range.run,
            })
            .collect();
        Self {
            version: VERSION,
            salt: checkpoint.salt,
            low: stored_position(checkpoint.low),
            suspect_below: stored_position(checkpoint.suspect_below),
            targets,
            taken,
            in_flight,
        }
    }

    fn into_checkpoint(self) -> Checkpoint {
        let key = |target: usize, month: u32| Key {
            insert_target: self
                .targets
                .get(target)
                .map(String::as_str)
                .unwrap_or_default()
                .into(),
            month: Month(month),
        };
        Checkpoint {
            salt: self.salt,
            low: position(self.low),
            suspect_below: position(self.suspect_below),
            taken: self
                .taken
                .iter()
                .map(|&(target, month, at)| (key(target, month), place(at)))
                .collect(),
            in_flight: self
                .in_flight
                .iter()
                .map(|range| Range {
                    key: key(range.target, range.month),
                    first: place(range.first),
                    last: place(range.last),
                    rows: range.rows.map(|(from, to)| RowRange { from, to }),
                    start_mark: range.start_mark,
                    attempt: range.attempt,
                    is_suspect: range.is_suspect,
                    is_part: range.is_part,
                    run: range.run,
                })
                .collect(),
        }
    }
}

fn stored_position(position: Position) -> (u64, u64) {
    (position.segment, position.offset)
}

fn position((segment, offset): (u64, u64)) -> Position {
    Position { segment, offset }
}

fn stored_place(place: Place) -> StoredPlace {
    (place.frame.segment, place.frame.offset, place.section)
}

fn place((segment, offset, section): StoredPlace) -> Place {
    Place {
        frame: position((segment, offset)),
        section,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint() -> Checkpoint {
        let key = |target: &str| Key {
            insert_target: target.into(),
            month: Month(202_611),
        };
        Checkpoint {
            salt: 7,
            low: position((3, 64)),
            suspect_below: position((2, 64)),
            taken: vec![
                (key("events(uuid)"), place((3, 64, 1))),
                (key("rejected_events(raw)"), place((3, 128, 0))),
            ],
            in_flight: vec![Range {
                key: key("events(uuid)"),
                first: place((3, 64, 0)),
                last: place((3, 64, 0)),
                rows: Some(RowRange { from: 1, to: 2 }),
                start_mark: Some(u32::MAX),
                attempt: 4,
                is_suspect: true,
                is_part: true,
                run: Some(Uuid::from_u128(9)),
            }],
        }
    }

    #[test]
    fn a_checkpoint_survives_its_bytes() {
        let bytes = checkpoint().to_bytes().unwrap();
        assert_eq!(Checkpoint::from_bytes(&bytes).unwrap(), checkpoint());
    }

    #[test]
    fn an_insert_of_an_earlier_version_is_whole_and_without_the_mark_of_a_start() {
        let bytes = checkpoint().to_bytes().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let earlier = text.replace(r#""start_mark":4294967295,"#, "");
        let earlier = earlier.replace(r#""is_suspect":true,"is_part":true,"#, "");
        assert!(earlier.len() + 55 < text.len(), "{text}");
        let read = Checkpoint::from_bytes(earlier.as_bytes()).unwrap();
        let range = &read.in_flight[0];
        assert_eq!((range.start_mark, range.is_suspect), (None, false));
        assert!(!range.is_part);
    }

    #[test]
    fn a_newer_version_is_refused_and_not_guessed_at() {
        let bytes = checkpoint().to_bytes().unwrap();
        let text = String::from_utf8(bytes)
            .unwrap()
            .replace("\"version\":1", "\"version\":2");
        let refused = Checkpoint::from_bytes(text.as_bytes());
        assert!(
            matches!(refused, Err(CheckpointError::Newer(2))),
            "{refused:?}"
        );
    }
}
