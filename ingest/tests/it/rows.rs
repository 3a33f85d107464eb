//! Reader of rows from the logs.

use millrace_blocks::decompress_into_vec;
use millrace_log::{FrameSection, LogHandle};
use millrace_rows::Table;
use millrace_rows::testing::{self, Event, PersonUpdate, Rejected};
use serde_json::Value;

/// Rows of all logs.
#[derive(Debug, Default)]
pub struct Stored {
    pub events: Vec<Event>,
    pub rejected: Vec<Rejected>,
    pub person_updates: Vec<PersonUpdate>,
}

impl Stored {
    /// Names of all events.
    pub fn names(&self) -> Vec<&str> {
        self.events
            .iter()
            .map(|event| event.event.as_str())
            .collect()
    }
}

/// Properties of an event.
pub fn properties(event: &Event) -> Value {
    serde_json::from_str(&event.properties).unwrap()
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
    let header = &section.header;
    let count = match Table::of_insert_target(&header.insert_target).unwrap() {
        Table::Events => {
            let events = testing::events(rows);
            let count = events.len();
            stored.events.extend(events);
            count
        }
        Table::RejectedEvents => {
            let rejected = testing::rejected(rows);
            let count = rejected.len();
            stored.rejected.extend(rejected);
            count
        }
        Table::PersonUpdates => {
            let updates = testing::person_updates(rows);
            let count = updates.len();
            stored.person_updates.extend(updates);
            count
        }
    };
    assert_eq!(count as u64, u64::from(header.rows));
}
