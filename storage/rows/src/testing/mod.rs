//! Decodes rows for tests like ClickHouse, by code of its own; and reads settings of tests.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "for tests, where a row that cannot be read is a failure"
)]

mod setting;

pub use setting::number_from_env;

use crate::Micros;
use uuid::Uuid;

/// A row of `events`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after their columns")]
pub struct Event {
    pub uuid: Uuid,
    pub event: String,
    pub properties: String,
    pub timestamp: Micros,
    pub team_id: i64,
    pub distinct_id: String,
    pub created_at: Micros,
    pub historical_migration: bool,
}

/// A row of `rejected_events`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after their columns")]
pub struct Rejected {
    pub team_id: i64,
    pub received_at: Micros,
    pub request_id: String,
    pub index: u32,
    pub code: String,
    pub attr: String,
    pub detail: String,
    pub raw: String,
    pub historical_migration: bool,
}

/// A row of `person_updates`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after their columns")]
pub struct PersonUpdate {
    pub team_id: i64,
    pub created_at: Micros,
    pub request_id: String,
    pub index: u32,
    pub uuid: Uuid,
    pub timestamp: Micros,
    pub kind: String,
    pub distinct_id: String,
    pub other_id: String,
    pub person_set: String,
    pub person_set_once: String,
    pub person_unset: String,
    pub group_type: String,
    pub group_key: String,
    pub group_set: String,
}

/// The rows of `events` in `bytes`; panics if they cannot be decoded.
#[must_use]
pub fn events(bytes: &[u8]) -> Vec<Event> {
    rows(bytes, |input| Event {
        uuid: input.uuid(),
        event: input.text(),
        properties: input.text(),
        timestamp: Micros(input.i64()),
        team_id: input.i64(),
        distinct_id: input.text(),
        created_at: Micros(input.i64()),
        historical_migration: input.flag(),
    })
}

/// The rows of `rejected_events` in `bytes`; panics if they cannot be decoded.
#[must_use]
pub fn rejected(bytes: &[u8]) -> Vec<Rejected> {
    rows(bytes, |input| Rejected {
        team_id: input.i64(),
        received_at: Micros(input.i64()),
        request_id: input.text(),
        index: u32::from_le_bytes(input.array()),
        code: input.text(),
        attr: input.text(),
        detail: input.text(),
        raw: input.text(),
        historical_migration: input.flag(),
    })
}

/// The rows of `person_updates` in `bytes`; panics if they cannot be decoded.
#[must_use]
pub fn person_updates(bytes: &[u8]) -> Vec<PersonUpdate> {
    rows(bytes, |input| PersonUpdate {
        team_id: input.i64(),
        created_at: Micros(input.i64()),
        request_id: input.text(),
        index: u32::from_le_bytes(input.array()),
        uuid: input.uuid(),
        timestamp: Micros(input.i64()),
        kind: input.text(),
        distinct_id: input.text(),
        other_id: input.text(),
        person_set: input.text(),
        person_set_once: input.text(),
        person_unset: input.text(),
        group_type: input.text(),
        group_key: input.text(),
        group_set: input.text(),
    })
}

fn rows<T>(bytes: &[u8], read: impl Fn(&mut Input<'_>) -> T) -> Vec<T> {
    let mut input = Input(bytes);
    let mut rows = Vec::new();
    while !input.0.is_empty() {
        rows.push(read(&mut input));
    }
    rows
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(count);
        self.0 = tail;
        head
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        self.bytes(N).try_into().expect("as many as were taken")
    }

    fn i64(&mut self) -> i64 {
        i64::from_le_bytes(self.array())
    }

    fn flag(&mut self) -> bool {
        self.bytes(1)[0] == 1
    }

    /// Reads two little-endian halves, the upper one first.
    fn uuid(&mut self) -> Uuid {
        let (high, low) = (self.i64() as u64, self.i64() as u64);
        Uuid::from_u64_pair(high, low)
    }

    fn text(&mut self) -> String {
        let (mut len, mut shift) = (0, 0);
        loop {
            let byte = self.bytes(1)[0];
            len |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        String::from_utf8(self.bytes(len).to_vec()).expect("texts are UTF-8")
    }
}
