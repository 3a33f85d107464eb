//! Checkpoint of a lane: the shipper's state that survives a restart.
//!
//! The log is read again from `low`. A section of a key at or before the key's position in `taken`
//! is in ClickHouse, unless one of the batches `in_flight` has it: their outcome is unknown.
//!
//! The checkpoint is stored before a batch is sent, so every batch that was ever sent under a
//! token is either settled or in `in_flight` with that token's attempt.

use super::insert_batch::RowRange;
use super::section::{InsertKey, SectionPosition};
use millrace_log::Position;
use millrace_rows::Month;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The only version so far.
const VERSION: u32 = 1;

/// The state of a lane, as the log keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Random number that tells this log from an earlier one in the same folder under the same node
    /// name: tokens must never come back.
    pub salt: u32,
    /// Everything below is in ClickHouse.
    pub low: Position,
    /// Rows below may have been shipped before the lane began, as an earlier checkpoint was lost.
    pub suspect_below: Position,
    /// Position up to which sections have been taken into batches, by key.
    pub taken: Vec<(InsertKey, SectionPosition)>,
    /// Batches that are not settled.
    pub in_flight: Vec<RecordedBatch>,
}

/// A batch whose outcome is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedBatch {
    pub key: InsertKey,
    pub first: SectionPosition,
    pub last: SectionPosition,
    pub rows: Option<RowRange>,
    /// See [`InsertBatch::start_mark`](super::insert_batch::InsertBatch::start_mark).
    pub start_mark: Option<u32>,
    /// See [`InsertBatch::rows_mark`](super::insert_batch::InsertBatch::rows_mark).
    pub rows_mark: Option<u32>,
    pub attempt: u32,
    /// See [`InsertBatch::is_suspect`](super::insert_batch::InsertBatch::is_suspect).
    pub is_suspect: bool,
    /// See [`InsertBatch::is_part`](super::insert_batch::InsertBatch::is_part).
    pub is_part: bool,
    pub boot_id: Option<Uuid>,
}

/// Error of bytes that are not a checkpoint.
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
    /// Encodes the checkpoint.
    ///
    /// # Errors
    /// Never for a checkpoint of a lane; the encoder says so.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CheckpointError> {
        Ok(serde_json::to_vec(&Stored::of(self))?)
    }

    /// Decodes the bytes of [`Checkpoint::to_bytes`].
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

/// Position of a section: segment, offset, number.
type StoredSectionPosition = (u64, u64, u32);

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    salt: u32,
    low: (u64, u64),
    suspect_below: (u64, u64),
    /// Every insert target once; the other fields refer to them by index.
    targets: Vec<String>,
    taken: Vec<(usize, u32, StoredSectionPosition)>,
    in_flight: Vec<StoredBatch>,
}

#[derive(Serialize, Deserialize)]
struct StoredBatch {
    target: usize,
    month: u32,
    first: StoredSectionPosition,
    last: StoredSectionPosition,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    rows: Option<(u32, u32)>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    start_mark: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    rows_mark: Option<u32>,
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
        let mut number = |key: &InsertKey| {
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
            .map(|(key, position)| (number(key), key.month.0, stored_section_position(*position)))
            .collect();
        let in_flight = checkpoint
            .in_flight
            .iter()
            .map(|batch| StoredBatch {
                target: number(&batch.key),
                month: batch.key.month.0,
                first: stored_section_position(batch.first),
                last: stored_section_position(batch.last),
                rows: batch.rows.map(|rows| (rows.from, rows.to)),
                start_mark: batch.start_mark,
                rows_mark: batch.rows_mark,
                attempt: batch.attempt,
                is_suspect: batch.is_suspect,
                is_part: batch.is_part,
                run: batch.boot_id,
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
        let key = |target: usize, month: u32| InsertKey {
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
                .map(|&(target, month, at)| (key(target, month), section_position(at)))
                .collect(),
            in_flight: self
                .in_flight
                .iter()
                .map(|batch| RecordedBatch {
                    key: key(batch.target, batch.month),
                    first: section_position(batch.first),
                    last: section_position(batch.last),
                    rows: batch.rows.map(|(from, to)| RowRange { from, to }),
                    start_mark: batch.start_mark,
                    rows_mark: batch.rows_mark,
                    attempt: batch.attempt,
                    is_suspect: batch.is_suspect,
                    is_part: batch.is_part,
                    boot_id: batch.run,
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

fn stored_section_position(position: SectionPosition) -> StoredSectionPosition {
    (
        position.frame.segment,
        position.frame.offset,
        position.section,
    )
}

fn section_position((segment, offset, section): StoredSectionPosition) -> SectionPosition {
    SectionPosition {
        frame: position((segment, offset)),
        section,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint() -> Checkpoint {
        let key = |target: &str| InsertKey {
            insert_target: target.into(),
            month: Month(202_611),
        };
        Checkpoint {
            salt: 7,
            low: position((3, 64)),
            suspect_below: position((2, 64)),
            taken: vec![
                (key("events(uuid)"), section_position((3, 64, 1))),
                (key("rejected_events(raw)"), section_position((3, 128, 0))),
            ],
            in_flight: vec![RecordedBatch {
                key: key("events(uuid)"),
                first: section_position((3, 64, 0)),
                last: section_position((3, 64, 0)),
                rows: Some(RowRange { from: 1, to: 2 }),
                start_mark: Some(u32::MAX),
                rows_mark: Some(7),
                attempt: 4,
                is_suspect: true,
                is_part: true,
                boot_id: Some(Uuid::from_u128(9)),
            }],
        }
    }

    #[test]
    fn a_checkpoint_survives_its_bytes() {
        let bytes = checkpoint().to_bytes().unwrap();
        assert_eq!(Checkpoint::from_bytes(&bytes).unwrap(), checkpoint());
    }

    #[test]
    fn a_batch_of_an_earlier_version_is_whole_and_has_no_marks() {
        let bytes = checkpoint().to_bytes().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let earlier = text.replace(r#""start_mark":4294967295,"rows_mark":7,"#, "");
        let earlier = earlier.replace(r#""is_suspect":true,"is_part":true,"#, "");
        assert!(earlier.len() + 70 < text.len(), "{text}");
        let read = Checkpoint::from_bytes(earlier.as_bytes()).unwrap();
        let batch = &read.in_flight[0];
        assert_eq!((batch.start_mark, batch.rows_mark), (None, None));
        assert!(!batch.is_suspect && !batch.is_part);
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
