//! Bodies of requests, and the record of each event in them.

use crate::event_counts::Day;
use bytes::Bytes;
use millrace_sources::Position;
use millrace_sources::scan::Members;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

/// End of every body.
const END: &[u8] = b"]}";
/// Text before an added uuid, in place of the event's last brace.
const BEFORE_UUID: &[u8] = b",\"uuid\":\"";
const AFTER_UUID: &[u8] = b"\"}";

/// Beginning of every body: project key and flags.
#[derive(Clone, Debug)]
pub struct BodyPrefix(Vec<u8>);

impl BodyPrefix {
    /// Creates the beginning of bodies for a project.
    #[must_use]
    pub fn new(project_key: &str) -> Self {
        let key = serde_json::Value::from(project_key);
        let prefix = format!(r#"{{"api_key":{key},"historical_migration":true,"batch":["#);
        Self(prefix.into_bytes())
    }
}

/// An event of a request, with the position of its record.
#[derive(Clone, Debug)]
pub struct SentEvent {
    /// Offset of its start in the body.
    pub start: u32,
    /// Offset of its end in the body.
    pub end: u32,
    /// Position of its record in the file.
    pub at: Position,
    /// Index of the file among the chunk's sources.
    pub source: u32,
    /// Day that it is counted on; `None` for generated events, which are counted separately.
    pub counted: Option<Day>,
    /// Location of its record's bytes.
    record: RecordBytes,
}

/// Location of a record's bytes in a request.
#[derive(Clone, Copy, Debug)]
enum RecordBytes {
    /// The record is the event as it is in the body.
    SameAsEvent,
    /// The record is the event without the uuid that was added at its end.
    EventWithoutUuid,
    /// The record is in [`Request::raw`].
    Kept { start: u32, end: u32 },
}

/// Writes a request.
#[derive(Clone, Debug)]
pub struct RequestBuilder {
    body: Vec<u8>,
    raw: Vec<u8>,
    events: Vec<SentEvent>,
}

/// An event to add to a request.
#[derive(Clone, Copy, Debug)]
pub struct NewEvent<'a> {
    /// JSON object with at least one member, without white space around it.
    pub json: &'a [u8],
    /// Uuid to add.
    pub uuid: Option<Uuid>,
    /// Record of the event, unless that is `json`.
    pub record: Option<&'a [u8]>,
    /// Position of the record in its file.
    pub at: Position,
    /// Index of the file among the chunk's sources.
    pub source: u32,
    /// Day that the event is counted on, unless it is generated.
    pub counted: Option<Day>,
}

impl RequestBuilder {
    /// Starts a request without events.
    #[must_use]
    pub fn new(prefix: &BodyPrefix) -> Self {
        Self {
            body: prefix.0.clone(),
            raw: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns true if the request has no event.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Bytes of the body.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Adds an event.
    pub fn push(&mut self, event: NewEvent<'_>) {
        if !self.events.is_empty() {
            self.body.push(b',');
        }
        let start = offset(self.body.len());
        let mut record_bytes = RecordBytes::SameAsEvent;
        match (event.uuid, event.json.split_last()) {
            (Some(uuid), Some((_, open))) => {
                let mut text = [0; Hyphenated::LENGTH];
                let text = uuid.as_hyphenated().encode_lower(&mut text).as_bytes();
                self.body.reserve(event.json.len() + 64);
                for part in [open, BEFORE_UUID, text, AFTER_UUID] {
                    self.body.extend_from_slice(part);
                }
                record_bytes = RecordBytes::EventWithoutUuid;
            }
            _ => self.body.extend_from_slice(event.json),
        }
        if let Some(record) = event.record {
            let start = offset(self.raw.len());
            self.raw.extend_from_slice(record);
            record_bytes = RecordBytes::Kept {
                start,
                end: offset(self.raw.len()),
            };
        }
        self.events.push(SentEvent {
            start,
            end: offset(self.body.len()),
            at: event.at,
            source: event.source,
            counted: event.counted,
            record: record_bytes,
        });
    }

    /// Ends the body and returns the request.
    #[must_use]
    pub fn finish(mut self) -> Request {
        self.body.extend_from_slice(END);
        Request {
            body: self.body.into(),
            raw: self.raw.into(),
            events: self.events,
        }
    }
}

/// Converts a length to an offset; requests stay far below four gigabytes.
fn offset(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// A request that is ready to be sent.
#[derive(Clone, Debug)]
pub struct Request {
    /// The body.
    pub body: Bytes,
    /// Records that differ from their events.
    raw: Bytes,
    /// Events in the order of the body.
    pub events: Vec<SentEvent>,
}

impl Request {
    /// JSON of an event as it is sent.
    #[must_use]
    pub fn event(&self, sent: &SentEvent) -> &[u8] {
        let range = sent.start as usize..sent.end as usize;
        self.body.get(range).unwrap_or_default()
    }

    /// Name of an event as it is in its JSON, with escapes.
    #[must_use]
    pub fn name(&self, sent: &SentEvent) -> &[u8] {
        let json = self.event(sent);
        let mut name: &[u8] = b"";
        for member in Members::new(json, 0).into_iter().flatten() {
            if json.get(member.name_start..member.name_end) == Some(b"event") {
                let inside = member.value_start + 1..member.value_end.saturating_sub(1);
                name = json.get(inside).unwrap_or_default();
            }
        }
        name
    }

    /// Bytes of the record that an event was made of.
    #[must_use]
    pub fn record(&self, sent: &SentEvent) -> Vec<u8> {
        let event = self.event(sent);
        match sent.record {
            RecordBytes::SameAsEvent => event.to_vec(),
            RecordBytes::EventWithoutUuid => {
                let added = BEFORE_UUID.len() + Hyphenated::LENGTH + AFTER_UUID.len();
                let open = event.get(..event.len().saturating_sub(added));
                [open.unwrap_or_default(), b"}"].concat()
            }
            RecordBytes::Kept { start, end } => {
                let range = start as usize..end as usize;
                self.raw.get(range).unwrap_or_default().to_vec()
            }
        }
    }

    /// Makes a request of some of the events: those for whose index `keep` is true.
    #[must_use]
    pub fn part(&self, keep: impl Fn(usize) -> bool) -> Self {
        let prefix_length = self.events.first().map_or(0, |first| first.start as usize);
        let mut body = self.body.get(..prefix_length).unwrap_or_default().to_vec();
        let mut events = Vec::new();
        for (_, sent) in self
            .events
            .iter()
            .enumerate()
            .filter(|(index, _)| keep(*index))
        {
            if !events.is_empty() {
                body.push(b',');
            }
            let start = offset(body.len());
            body.extend_from_slice(self.event(sent));
            let end = offset(body.len());
            events.push(SentEvent {
                start,
                end,
                ..sent.clone()
            });
        }
        body.extend_from_slice(END);
        Self {
            body: body.into(),
            raw: self.raw.clone(),
            events,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        let mut request = RequestBuilder::new(&BodyPrefix::new("phc_\"x"));
        let event = |json, uuid, record| NewEvent {
            json,
            uuid,
            record,
            at: Position::default(),
            source: 0,
            counted: Some(19_000),
        };
        request.push(event(br#"{"event":"a" }"#, Some(Uuid::nil()), None));
        request.push(event(br#"{"event":"b","uuid":"x"}"#, None, None));
        request.push(event(br#"{"event":"c"}"#, Some(Uuid::max()), Some(b"c,1")));
        request.finish()
    }

    #[test]
    fn a_request_is_a_batch_that_returns_its_records() {
        let request = request();
        let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(body["api_key"], "phc_\"x");
        assert_eq!(body["historical_migration"], true);
        assert_eq!(body["batch"][0]["uuid"], Uuid::nil().to_string());
        assert_eq!(body["batch"][1]["uuid"], "x");
        let records: Vec<_> = request.events.iter().map(|it| request.record(it)).collect();
        let expected: [&[u8]; 3] = [br#"{"event":"a" }"#, br#"{"event":"b","uuid":"x"}"#, b"c,1"];
        assert_eq!(records, expected);
        let names: Vec<_> = request.events.iter().map(|it| request.name(it)).collect();
        assert_eq!(names, [b"a", b"b", b"c"]);
    }

    #[test]
    fn a_part_is_a_request_of_its_own() {
        let part = request().part(|index| index != 1);
        let body: serde_json::Value = serde_json::from_slice(&part.body).unwrap();
        assert_eq!(body["batch"].as_array().unwrap().len(), 2);
        assert_eq!(body["batch"][1]["event"], "c");
        let last = part.events.last().unwrap();
        assert_eq!(part.record(last), b"c,1");
        assert_eq!(part.event(last), request().event(&request().events[2]));
        let none = request().part(|_| false);
        assert_eq!(
            none.body,
            Bytes::from_static(br#"{"api_key":"phc_\"x","historical_migration":true,"batch":[]}"#)
        );
    }
}
