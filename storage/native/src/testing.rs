//! Decodes blocks for tests like ClickHouse, by code of its own.

#![allow(
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "for tests, where a block that cannot be read is a failure"
)]

use millrace_rows::testing::Event;
use millrace_rows::{Micros, PropertyColumn};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Flags of an index type: another block's keys are used, keys follow.
const SHARED_KEYS: u64 = 0x100;
const KEYS_FOLLOW: u64 = 0x200;

/// A block as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedBlock {
    /// Names and types of the columns.
    pub columns: Vec<(String, String)>,
    /// Keys of the dictionary of event names.
    pub names: Vec<String>,
    /// The rows, in the order of the block.
    pub events: Vec<Event>,
    /// Values of the property columns, by their names.
    pub properties: BTreeMap<String, Vec<PropertyValue>>,
}

/// Value of a property column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyValue {
    /// No value.
    Null,
    /// Value of a text.
    Text(String),
    /// Value of an Int64, or microseconds of a time.
    Whole(i64),
    /// Bits of a Float64.
    Real(u64),
    /// Value of a Bool.
    Flag(bool),
}

/// Decodes one block with all columns of `events`, and property columns; panics if it is none.
#[must_use]
pub fn decode(block: &[u8]) -> DecodedBlock {
    let mut input = Input(block);
    let (columns, rows) = (input.number(), input.number());
    let mut block = DecodedBlock {
        columns: Vec::new(),
        names: Vec::new(),
        events: vec![nothing(); rows],
        properties: BTreeMap::new(),
    };
    for _ in 0..columns {
        let (name, kind) = (input.text(), input.text());
        match (name.as_str(), kind.as_str()) {
            ("event", "LowCardinality(String)") => {
                let (names, indexes) = input.dictionary(rows);
                for (event, index) in block.events.iter_mut().zip(indexes) {
                    event.event.clone_from(&names[index]);
                }
                block.names = names;
            }
            (name, kind) if name.starts_with(PropertyColumn::NAME_START) => {
                let values = input.property(kind, rows);
                block.properties.insert(name.to_owned(), values);
            }
            _ => {
                for event in &mut block.events {
                    input.cell((name.as_str(), kind.as_str()), event);
                }
            }
        }
        block.columns.push((name, kind));
    }
    assert!(input.0.is_empty(), "{} bytes are left", input.0.len());
    block
}

fn nothing() -> Event {
    Event {
        uuid: Uuid::nil(),
        event: String::new(),
        properties: String::new(),
        timestamp: Micros(0),
        team_id: 0,
        distinct_id: String::new(),
        created_at: Micros(0),
        historical_migration: false,
    }
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn cell(&mut self, column: (&str, &str), event: &mut Event) {
        match column {
            ("uuid", "UUID") => {
                let (high, low) = (self.u64(), self.u64());
                event.uuid = Uuid::from_u64_pair(high, low);
            }
            ("properties", "String") => event.properties = self.text(),
            ("timestamp", "DateTime64(6, 'UTC')") => event.timestamp = Micros(self.u64() as i64),
            ("team_id", "Int64") => event.team_id = self.u64() as i64,
            ("distinct_id", "String") => event.distinct_id = self.text(),
            ("created_at", "DateTime64(6, 'UTC')") => event.created_at = Micros(self.u64() as i64),
            ("historical_migration", "Bool") => {
                event.historical_migration = match self.bytes(1)[0] {
                    0 => false,
                    1 => true,
                    other => panic!("a Bool is {other}"),
                };
            }
            other => panic!("no column of events: {other:?}"),
        }
    }

    /// Reads the values of a property column.
    fn property(&mut self, kind: &str, rows: usize) -> Vec<PropertyValue> {
        if kind == "LowCardinality(String)" {
            let (texts, indexes) = self.dictionary(rows);
            let text = |index: usize| PropertyValue::Text(texts[index].clone());
            return indexes.into_iter().map(text).collect();
        }
        let nulls = match kind {
            "String" => vec![0; rows],
            _ => self.bytes(rows).to_vec(),
        };
        let values = nulls.into_iter().map(|null| {
            let value = match kind {
                "String" => PropertyValue::Text(self.text()),
                "Nullable(Float64)" => PropertyValue::Real(self.u64()),
                "Nullable(Bool)" => PropertyValue::Flag(self.bytes(1)[0] == 1),
                "Nullable(Int64)" | "Nullable(DateTime64(6, 'UTC'))" => {
                    PropertyValue::Whole(self.u64() as i64)
                }
                other => panic!("no property column has the type {other}"),
            };
            match null {
                0 => value,
                1 => PropertyValue::Null,
                other => panic!("a null is {other}"),
            }
        });
        values.collect()
    }

    /// Reads the keys of a dictionary, and the index of each row's key.
    fn dictionary(&mut self, rows: usize) -> (Vec<String>, Vec<usize>) {
        assert_eq!(self.u64(), 1, "version of the keys");
        let kind = self.u64();
        assert_eq!(kind & (SHARED_KEYS | KEYS_FOLLOW), KEYS_FOLLOW, "{kind:#x}");
        let width = 1 << (kind & 0xff);
        let names = (0..self.u64()).map(|_| self.text()).collect();
        assert_eq!(self.u64(), rows as u64, "number of indexes");
        let indexes = (0..rows).map(|_| {
            let index = self.bytes(width).iter().rev();
            index.fold(0, |all, &byte| all << 8 | usize::from(byte))
        });
        (names, indexes.collect())
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(count);
        self.0 = tail;
        head
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes(8).try_into().unwrap())
    }

    fn number(&mut self) -> usize {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.bytes(1)[0];
            number |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return number;
            }
        }
    }

    fn text(&mut self) -> String {
        let count = self.number();
        String::from_utf8(self.bytes(count).to_vec()).unwrap()
    }
}
