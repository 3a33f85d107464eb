//! Bodies of requests, and which record each event of them came from.

use crate::tally::Day;
use bytes::Bytes;
use millrace_sources::Position;
use millrace_sources::scan::Members;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

/// What ends a body.
const END: &[u8] = b"]}";
/// What goes in before a uuid, in place of the event's last brace.
const BEFORE_UUID: &[u8] = b",\"uuid\":\"";
const AFTER_UUID: &[u8] = b"\"}";

/// What every body begins with.
#[derive(Clone, Debug)]
pub struct Head(Vec<u8>);

impl Head {
    /// For events of a project.
    #[must_use]
    pub fn new(project_key: &str) -> Self {
        let key = serde_json::Value::from(project_key);
        let head = format!(r#"{{"api_key":{key},"historical_migration":true,"batch":["#);
        Self(head.into_bytes())
    }
}

/// Where an event of a request came from.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Where it is in the body.
    pub start: u32,
    /// Where it ends there.
    pub end: u32,
    /// Where its record is in its file.
    pub at: Position,
    /// Which of the chunk's sources that file is.
    pub source: u32,
    /// The day that it is counted on; generated events are counted apart.
    pub counted: Option<Day>,
    /// How its record is found.
    origin: Origin,
}

#[derive(Clone, Copy, Debug)]
enum Origin {
    /// The record is the event as it stands in the body.
    AsSent,
    /// The same, but for the uuid behind it.
    WithUuid,
    /// The record is in [`Request::raw`].
    Kept { start: u32, end: u32 },
}

/// A request that is being written.
#[derive(Clone, Debug)]
pub struct Draft {
    body: Vec<u8>,
    raw: Vec<u8>,
    events: Vec<Sent>,
}

/// What an event is made of.
#[derive(Clone, Copy, Debug)]
pub struct NewEvent<'a> {
    /// Its JSON object, with at least one member, without white space around it.
    pub json: &'a [u8],
    /// The uuid to add.
    pub uuid: Option<Uuid>,
    /// Its record, unless that is `json`.
    pub record: Option<&'a [u8]>,
    /// Where the record is.
    pub at: Position,
    /// In which of the chunk's sources.
    pub source: u32,
    /// The day that the event is counted on, unless it is generated.
    pub counted: Option<Day>,
}

impl Draft {
    /// Without events yet.
    #[must_use]
    pub fn new(head: &Head) -> Self {
        Self {
            body: head.0.clone(),
            raw: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Events in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there are none.
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
        let start = place(self.body.len());
        let mut origin = Origin::AsSent;
        match (event.uuid, event.json.split_last()) {
            (Some(uuid), Some((_, open))) => {
                let mut text = [0; Hyphenated::LENGTH];
                let text = uuid.as_hyphenated().encode_lower(&mut text).as_bytes();
                self.body.reserve(event.json.len() + 64);
                for part in [open, BEFORE_UUID, text, AFTER_UUID] {
                    self.body.extend_from_slice(part);
                }
                origin = Origin::WithUuid;
            }
            _ => self.body.extend_from_slice(event.json),
        }
        if let Some(record) = event.record {
            let start = place(self.raw.len());
            self.raw.extend_from_slice(record);
            origin = Origin::Kept {
                start,
                end: place(self.raw.len()),
            };
        }
        self.events.push(Sent {
            start,
            end: place(self.body.len()),
            at: event.at,
            source: event.source,
            counted: event.counted,
            origin,
        });
    }

    /// The request.
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

/// Requests stay far below four gigabytes.
fn place(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// A request as it is sent.
#[derive(Clone, Debug)]
pub struct Request {
    /// The body.
    pub body: Bytes,
    /// Records whose events are something else than they are.
    raw: Bytes,
    /// Its events, in the order of the body.
    pub events: Vec<Sent>,
}

impl Request {
    /// An event as it is sent.
    #[must_use]
    pub fn event(&self, sent: &Sent) -> &[u8] {
        let range = sent.start as usize..sent.end as usize;
        self.body.get(range).unwrap_or_default()
    }

    /// An event's name as it stands in its JSON.
    #[must_use]
    pub fn name(&self, sent: &Sent) -> &[u8] {
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

    /// The record that an event was made of.
    #[must_use]
    pub fn record(&self, sent: &Sent) -> Vec<u8> {
        let event = self.event(sent);
        match sent.origin {
            Origin::AsSent => event.to_vec(),
            Origin::WithUuid => {
                let added = BEFORE_UUID.len() + Hyphenated::LENGTH + AFTER_UUID.len();
                let open = event.get(..event.len().saturating_sub(added));
                [open.unwrap_or_default(), b"}"].concat()
            }
            Origin::Kept { start, end } => {
                let range = start as usize..end as usize;
                self.raw.get(range).unwrap_or_default().to_vec()
            }
        }
    }

    /// A request of some of the events: those whose place among them is true for `keep`.
    #[must_use]
    pub fn part(&self, keep: impl Fn(usize) -> bool) -> Self {
        let head_length = self.events.first().map_or(0, |first| first.start as usize);
        let mut body = self.body.get(..head_length).unwrap_or_default().to_vec();
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
            let start = place(body.len());
            body.extend_from_slice(self.event(sent));
            let end = place(body.len());
            events.push(Sent {
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
        let mut draft = Draft::new(&Head::new("phc_\"x"));
        let event = |json, uuid, record| NewEvent {
            json,
            uuid,
            record,
            at: Position::default(),
            source: 0,
            counted: Some(19_000),
        };
        draft.push(event(br#"{"event":"a" }"#, Some(Uuid::nil()), None));
        draft.push(event(br#"{"event":"b","uuid":"x"}"#, None, None));
        draft.push(event(br#"{"event":"c"}"#, Some(Uuid::max()), Some(b"c,1")));
        draft.finish()
    }

    #[test]
    fn a_request_is_a_batch_that_knows_its_records() {
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
