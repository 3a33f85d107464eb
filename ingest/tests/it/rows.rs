//! Reads rows back from the logs.

use millrace_log::block::decompress_into_vec;
use millrace_log::{FrameSection, LogHandle};
use serde_json::Value;
use uuid::Uuid;

/// A row of `events`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub uuid: Uuid,
    pub event: String,
    pub properties: String,
    /// Microseconds.
    pub timestamp: i64,
    pub team_id: i64,
    pub distinct_id: String,
    pub created_at: i64,
    pub historical_migration: bool,
}

/// A row of `rejected_events`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    pub team_id: i64,
    pub received_at: i64,
    pub request_id: String,
    pub index: u32,
    pub code: String,
    pub attr: String,
    pub detail: String,
    pub raw: String,
    pub historical_migration: bool,
}

/// Everything in the logs.
#[derive(Debug, Default)]
pub struct Stored {
    pub events: Vec<Event>,
    pub rejected: Vec<Rejected>,
}

impl Stored {
    /// The names of all events.
    pub fn names(&self) -> Vec<&str> {
        self.events
            .iter()
            .map(|event| event.event.as_str())
            .collect()
    }
}

impl Event {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.properties).unwrap()
    }
}

/// Reads all logs from their oldest frame.
pub fn read_rows(logs: &[LogHandle]) -> Stored {
    let mut stored = Stored::default();
    for log in logs {
        let mut reader = log.reader(log.start());
        while let Some(frame) = reader.next().unwrap() {
            for section in &frame.sections {
                let blocks = reader.read_blocks(section).unwrap();
                let mut rows = Vec::new();
                decompress_into_vec(&blocks, &mut rows, 1 << 30).unwrap();
                read_section(section, &rows, &mut stored);
            }
        }
    }
    stored
}

fn read_section(section: &FrameSection, rows: &[u8], stored: &mut Stored) {
    let mut bytes = Bytes(rows);
    let mut count = 0;
    while !bytes.0.is_empty() {
        count += 1;
        if section.header.insert_target.starts_with("events(") {
            stored.events.push(bytes.event());
        } else {
            stored.rejected.push(bytes.rejected());
        }
    }
    assert_eq!(count, section.header.rows);
}

/// RowBinary.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn event(&mut self) -> Event {
        Event {
            uuid: self.uuid(),
            event: self.text(),
            properties: self.text(),
            timestamp: self.i64(),
            team_id: self.i64(),
            distinct_id: self.text(),
            created_at: self.i64(),
            historical_migration: self.take(1)[0] == 1,
        }
    }

    fn rejected(&mut self) -> Rejected {
        Rejected {
            team_id: self.i64(),
            received_at: self.i64(),
            request_id: self.text(),
            index: u32::from_le_bytes(self.take(4).try_into().unwrap()),
            code: self.text(),
            attr: self.text(),
            detail: self.text(),
            raw: self.text(),
            historical_migration: self.take(1)[0] == 1,
        }
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken.to_vec()
    }

    fn i64(&mut self) -> i64 {
        i64::from_le_bytes(self.take(8).try_into().unwrap())
    }

    /// Two little-endian halves, the upper one first.
    fn uuid(&mut self) -> Uuid {
        let (high, low) = (self.i64() as u64, self.i64() as u64);
        Uuid::from_u64_pair(high, low)
    }

    fn text(&mut self) -> String {
        let mut len = 0;
        for shift in (0..).step_by(7) {
            let byte = self.take(1)[0];
            len |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        String::from_utf8(self.take(len)).unwrap()
    }
}
