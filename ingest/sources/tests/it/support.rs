//! Reading of files and mapping of records, with results that tests can compare.

use millrace_sources::{
    Event, Events, FileError, Format, Framing, Id, Input, Options, Position, RecordError,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{Cursor, Seek as _, Write as _};

/// Result of mapping a record.
#[derive(Debug)]
pub struct Mapped {
    pub events: Vec<Value>,
    /// Id of each event: `Own`, `Record`, or the parts of its key.
    pub ids: Vec<String>,
    pub notes: Vec<&'static str>,
}

impl Mapped {
    /// Returns the only event.
    pub fn one(&self) -> &Value {
        assert_eq!(self.events.len(), 1, "{self:?}");
        &self.events[0]
    }

    /// Property of the only event.
    pub fn property(&self, name: &str) -> &Value {
        &self.one()["properties"][name]
    }

    /// Properties of the only event, without those that every event has.
    pub fn properties(&self) -> Map<String, Value> {
        own_properties(self.one())
    }
}

/// Properties of an event, without those that every event has.
pub fn own_properties(event: &Value) -> Map<String, Value> {
    let mut properties = event["properties"].as_object().unwrap().clone();
    assert!(properties.remove("analytics_source").is_some());
    assert_eq!(properties.remove("$geoip_disable"), Some(json!(true)));
    properties
}

pub fn try_map(format: Format, options: &Options, raw: &[u8]) -> Result<Mapped, RecordError> {
    let mut mapping = format.mapping(options).unwrap();
    let mut events = Events::default();
    let outcome = mapping.map(raw, &mut events);
    if outcome.is_err() {
        assert!(events.list().is_empty(), "a refused record leaves nothing");
    }
    outcome.map(|()| mapped(&events))
}

pub fn map(format: Format, options: &Options, record: &Value) -> Mapped {
    try_map(format, options, record.to_string().as_bytes()).unwrap()
}

/// Code and field of a refused record's error.
pub fn refusal(
    format: Format,
    options: &Options,
    record: &Value,
) -> (&'static str, Option<String>) {
    let error = try_map(format, options, record.to_string().as_bytes()).unwrap_err();
    assert!(!error.message.is_empty());
    (error.code, error.field.map(Into::into))
}

pub fn mapped(events: &Events) -> Mapped {
    Mapped {
        events: events
            .list()
            .iter()
            .map(|event| value(events, event))
            .collect(),
        ids: events
            .list()
            .iter()
            .map(|event| id(events, event))
            .collect(),
        notes: events.notes().to_vec(),
    }
}

/// Returns the event's JSON, after a check that the server accepts it and no name is there twice.
fn value(events: &Events, event: &Event) -> Value {
    let bytes = &events.json()[event.json.clone()];
    let value: Value = serde_json::from_slice(bytes).unwrap();
    let properties: BTreeMap<String, Value> =
        serde_json::from_value(value["properties"].clone()).unwrap();
    let text = std::str::from_utf8(bytes).unwrap();
    for name in properties.keys() {
        let member = format!("{}:", json!(name));
        let top = text.matches(&format!("{{{member}")).count()
            + text.matches(&format!(",{member}")).count();
        // Once among the properties, and once each in `$set` and `$set_once` at most.
        assert!((1..=3).contains(&top), "{name} in {text}");
    }
    let name = std::str::from_utf8(&events.json()[event.name.clone()]).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&format!("\"{name}\"")).unwrap(),
        value["event"]
    );
    assert_eq!(value.get("uuid").is_some(), event.id == Id::Own);
    let mut written = Vec::new();
    millrace_sources::time::write(&mut written, event.timestamp.unwrap());
    assert_eq!(value["timestamp"].as_str().unwrap().as_bytes(), written);
    value
}

fn id(events: &Events, event: &Event) -> String {
    match &event.id {
        Id::Own => "Own".to_owned(),
        Id::Record => "Record".to_owned(),
        Id::Key(range) => parts(events.key(range)).join(" | "),
    }
}

/// Splits a key into its parts, each of which follows its length.
fn parts(mut key: &[u8]) -> Vec<String> {
    let mut parts = Vec::new();
    while let Some((length, rest)) = key.split_first_chunk() {
        let (part, rest) = rest.split_at(u64::from_be_bytes(*length) as usize);
        parts.push(String::from_utf8_lossy(part).into_owned());
        key = rest;
    }
    parts
}

/// Record that a framing found.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    pub at: Position,
    pub next: Position,
    pub raw: Vec<u8>,
    pub error: Option<&'static str>,
}

impl Frame {
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.raw).unwrap()
    }
}

/// Input without seek.
pub fn stream(bytes: &[u8]) -> Input {
    Input::Stream(Box::new(Cursor::new(bytes.to_vec())))
}

/// Input of a file on the disk.
pub fn plain(bytes: &[u8]) -> Input {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    Input::Plain(file)
}

pub fn opened(
    format: Format,
    options: &Options,
    input: Input,
    at: Position,
) -> Result<Box<dyn Framing>, FileError> {
    format.open(input, at, options)
}

/// Returns all records of a file.
pub fn frames(format: Format, options: &Options, bytes: &[u8]) -> Vec<Frame> {
    frames_from(format, options, bytes, Position::default())
}

/// Returns the records of a file from a position on, which must not depend on seek.
pub fn frames_from(format: Format, options: &Options, bytes: &[u8], at: Position) -> Vec<Frame> {
    let from_stream = read(&mut *opened(format, options, stream(bytes), at).unwrap());
    let from_file = read(&mut *opened(format, options, plain(bytes), at).unwrap());
    assert_eq!(from_stream, from_file);
    from_stream
}

fn read(framing: &mut dyn Framing) -> Vec<Frame> {
    let mut found = Vec::new();
    while let Some(record) = framing.next().unwrap() {
        found.push(Frame {
            at: record.at,
            next: record.next,
            raw: record.raw.to_vec(),
            error: record.error.map(|error| error.code),
        });
    }
    found
}
