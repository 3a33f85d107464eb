//! Events made of a record, as JSON that the server accepts.

use crate::RecordError;
use millrace_rows::Micros;
use serde::Serialize;
use std::ops::Range;
use uuid::Uuid;

/// Makes events of records.
///
/// A mapping has no I/O. State that it keeps between records (such as the persons it has
/// identified) must not change an event's uuid or timestamp, as imports are resumed anywhere.
pub trait Mapping: Send {
    /// Appends the events of one record; none for a skipped record, which `events.note` counts.
    /// On an error nothing stays appended.
    ///
    /// # Errors
    /// The record gives no event.
    fn map(&mut self, raw: &[u8], events: &mut Events) -> Result<(), RecordError>;
}

/// Origin of an event's uuid, which the importer makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Id {
    /// A valid uuid in the event's JSON.
    Own,
    /// Version 5 over the source, the project and these bytes of [`Events::key`]: the source's own
    /// id with the fields that make it unique.
    Key(Range<usize>),
    /// Version 5 over the source, the project, the record's bytes and ordinal, the file's name, and
    /// the event's index among those of the record.
    Record,
}

/// One event of [`Events`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// True if its JSON is a part of the record, not of [`Events`].
    pub in_record: bool,
    /// Range of its JSON object, in [`Events::json`] or the record. The object has no key `uuid`
    /// unless `id` is [`Id::Own`].
    pub json: Range<usize>,
    /// Range of its name in the same bytes as `json`: the text between the quotes, with escapes.
    pub name: Range<usize>,
    /// Time of the event; `None` when it has none that the server accepts.
    pub timestamp: Option<Micros>,
    /// Origin of its uuid.
    pub id: Id,
    /// True if the mapping generated it besides the record's own event, as it may again for another
    /// record: counts of the source leave it out.
    pub generated: bool,
}

/// Events of one record, and the rules that were applied. Reused for each record.
#[derive(Debug, Default)]
pub struct Events {
    json: Vec<u8>,
    keys: Vec<u8>,
    list: Vec<Event>,
    notes: Vec<&'static str>,
    set: Vec<u8>,
    set_once: Vec<u8>,
}

impl Events {
    /// Removes the events of the last record.
    pub fn clear(&mut self) {
        self.json.clear();
        self.keys.clear();
        self.list.clear();
        self.notes.clear();
    }

    /// Events in the order in which they were appended.
    #[must_use]
    pub fn list(&self) -> &[Event] {
        &self.list
    }

    /// JSON of the events that are not a part of the record.
    #[must_use]
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    /// Bytes of an [`Id::Key`].
    #[must_use]
    pub fn key(&self, range: &Range<usize>) -> &[u8] {
        self.keys.get(range.clone()).unwrap_or_default()
    }

    /// Rules that were applied, for the counts of the dry run.
    #[must_use]
    pub fn notes(&self) -> &[&'static str] {
        &self.notes
    }

    /// Counts a rule that changed or skipped something, such as `skipped_without_event_type` or
    /// `renamed_event`.
    pub fn note(&mut self, rule: &'static str) {
        self.notes.push(rule);
    }

    /// Appends an event that is an unchanged part of the record.
    pub fn push_in_record(&mut self, event: Event) {
        self.list.push(event);
    }

    /// Begins an event; [`EventWriter::end`] appends it, a writer dropped before leaves nothing.
    pub fn begin(&mut self, name: &str, distinct_id: &str, timestamp: Micros) -> EventWriter<'_> {
        let start = self.json.len();
        let key_start = self.keys.len();
        self.set.clear();
        self.set_once.clear();
        self.json.extend_from_slice(b"{\"event\":");
        let name_start = self.json.len() + 1;
        write(&mut self.json, name);
        let name = name_start..self.json.len() - 1;
        self.json.extend_from_slice(b",\"distinct_id\":");
        write(&mut self.json, distinct_id);
        self.json.extend_from_slice(b",\"timestamp\":\"");
        crate::time::write(&mut self.json, timestamp);
        self.json.extend_from_slice(b"\",\"properties\":{");
        EventWriter {
            events: self,
            start,
            key_start,
            name,
            timestamp,
            is_first: true,
            uuid: None,
            is_generated: false,
            is_done: false,
        }
    }
}

/// Writes an event. Of properties with the same name, the server takes the last.
pub struct EventWriter<'a> {
    events: &'a mut Events,
    start: usize,
    key_start: usize,
    name: Range<usize>,
    timestamp: Micros,
    is_first: bool,
    uuid: Option<Uuid>,
    is_generated: bool,
    is_done: bool,
}

impl EventWriter<'_> {
    /// Adds a property. A value that is JSON already is passed as a `&serde_json::value::RawValue`.
    pub fn property<V: Serialize + ?Sized>(&mut self, name: &str, value: &V) -> &mut Self {
        let is_first = std::mem::replace(&mut self.is_first, false);
        member(&mut self.events.json, is_first, name, value);
        self
    }

    /// Adds a property of the person, which replaces the person's value.
    pub fn set<V: Serialize + ?Sized>(&mut self, name: &str, value: &V) -> &mut Self {
        let is_first = self.events.set.is_empty();
        member(&mut self.events.set, is_first, name, value);
        self
    }

    /// Adds a property of the person, which does not replace the person's value.
    pub fn set_once<V: Serialize + ?Sized>(&mut self, name: &str, value: &V) -> &mut Self {
        let is_first = self.events.set_once.is_empty();
        member(&mut self.events.set_once, is_first, name, value);
        self
    }

    /// Sets the event's uuid, given by the source.
    pub fn uuid(&mut self, uuid: Uuid) -> &mut Self {
        self.uuid = Some(uuid);
        self
    }

    /// Sets the parts that the event's uuid is made of, such as the insert id, each prefixed with
    /// its length. Without parts, the uuid is made of the whole record.
    pub fn key(&mut self, parts: &[&[u8]]) -> &mut Self {
        self.events.keys.truncate(self.key_start);
        for part in parts {
            let length = part.len() as u64;
            self.events.keys.extend_from_slice(&length.to_be_bytes());
            self.events.keys.extend_from_slice(part);
        }
        self
    }

    /// Marks the event as one that other records may give as well, equal to the byte.
    pub fn generated(&mut self) -> &mut Self {
        self.is_generated = true;
        self
    }

    /// Appends the event.
    pub fn end(mut self) {
        let (set, set_once) = (
            std::mem::take(&mut self.events.set),
            std::mem::take(&mut self.events.set_once),
        );
        for (name, members) in [("$set", &set), ("$set_once", &set_once)] {
            if !members.is_empty() {
                let json = &mut self.events.json;
                if !std::mem::replace(&mut self.is_first, false) {
                    json.push(b',');
                }
                write(json, name);
                json.extend_from_slice(b":{");
                json.extend_from_slice(members);
                json.push(b'}');
            }
        }
        self.events.json.push(b'}');
        if let Some(uuid) = self.uuid {
            self.events.json.extend_from_slice(b",\"uuid\":");
            write(&mut self.events.json, &uuid);
        }
        self.events.json.push(b'}');
        (self.events.set, self.events.set_once) = (set, set_once);
        let keys = self.key_start..self.events.keys.len();
        let id = match self.uuid {
            Some(_) => Id::Own,
            None if keys.is_empty() => Id::Record,
            None => Id::Key(keys),
        };
        self.events.list.push(Event {
            in_record: false,
            json: self.start..self.events.json.len(),
            name: self.name.clone(),
            timestamp: Some(self.timestamp),
            id,
            generated: self.is_generated,
        });
        self.is_done = true;
    }
}

impl Drop for EventWriter<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.events.json.truncate(self.start);
            self.events.keys.truncate(self.key_start);
        }
    }
}

fn member<V: Serialize + ?Sized>(json: &mut Vec<u8>, is_first: bool, name: &str, value: &V) {
    if !is_first {
        json.push(b',');
    }
    write(json, name);
    json.push(b':');
    write(json, value);
}

/// Writes a value. One that is no JSON (a map whose keys are no text) becomes null.
fn write<V: Serialize + ?Sized>(json: &mut Vec<u8>, value: &V) {
    let start = json.len();
    if serde_json::to_writer(&mut *json, value).is_err() {
        json.truncate(start);
        json.extend_from_slice(b"null");
    }
}

impl std::fmt::Debug for EventWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventWriter").finish_non_exhaustive()
    }
}
