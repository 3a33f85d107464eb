//! Events gathered into bodies.

use crate::error::ExportError;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use url::Url;

/// The most events of a batch.
const EVENTS_MAX: usize = 1_000;
/// A batch of more than one event has no more bytes.
const BYTES_MAX: usize = 4 << 20;

/// What bodies look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A JSON object a line.
    Lines,
    /// That of our own ingestion.
    Batch,
}

impl Shape {
    pub(super) fn of(url: &Url) -> Self {
        match url.path().trim_end_matches('/').ends_with("/batch") {
            true => Self::Batch,
            false => Self::Lines,
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Lines => "application/x-ndjson",
            Self::Batch => "application/json",
        }
    }
}

/// A body that grows.
pub(super) struct Batch {
    shape: Shape,
    /// What the body begins with.
    head: String,
    body: String,
    events: usize,
}

/// An event as it is sent to ingestion: what it makes itself is left out.
#[derive(Debug, Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    uuid: &'a RawValue,
    #[serde(borrow)]
    event: &'a RawValue,
    #[serde(borrow)]
    distinct_id: &'a RawValue,
    #[serde(borrow)]
    timestamp: &'a RawValue,
    #[serde(borrow)]
    properties: Option<&'a RawValue>,
}

impl Batch {
    pub(super) fn new(shape: Shape, token: &str) -> Self {
        let head = match shape {
            Shape::Lines => String::new(),
            Shape::Batch => {
                let token = json!(token);
                format!(r#"{{"api_key":{token},"historical_migration":true,"batch":["#)
            }
        };
        Self {
            shape,
            body: head.clone(),
            head,
            events: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events == 0
    }

    /// Whether an event of so many bytes belongs into the next one.
    pub(super) fn has_no_room_for(&self, bytes: usize) -> bool {
        let full = self.events >= EVENTS_MAX || self.body.len() + bytes > BYTES_MAX;
        !self.is_empty() && full
    }

    /// Adds an event.
    ///
    /// # Errors
    /// The row has not what an event has.
    pub(super) fn push(&mut self, line: &str) -> Result<(), ExportError> {
        match self.shape {
            Shape::Lines => {
                self.body += line;
                self.body.push('\n');
            }
            Shape::Batch => {
                if !self.is_empty() {
                    self.body.push(',');
                }
                self.body += &event(line)?;
            }
        }
        self.events += 1;
        Ok(())
    }

    /// The body; the next one begins.
    pub(super) fn take(&mut self) -> Bytes {
        if self.shape == Shape::Batch {
            self.body += "]}";
        }
        self.events = 0;
        Bytes::from(std::mem::replace(&mut self.body, self.head.clone()))
    }
}

fn event(line: &str) -> Result<String, ExportError> {
    let wrong = |_| ExportError::hopeless("A row has not the columns of an event.");
    let event: Event<'_> = serde_json::from_str(line).map_err(wrong)?;
    let properties = event
        .properties
        .map_or(Cow::Borrowed("{}"), |raw| raw.get().into());
    Ok(format!(
        r#"{{"uuid":{},"event":{},"distinct_id":{},"timestamp":{},"properties":{properties}}}"#,
        event.uuid, event.event, event.distinct_id, event.timestamp,
    ))
}

/// What a batch is known by, whichever time it is sent. If ClickHouse reads other rows the next
/// time, or in another order, it is another one.
pub(super) fn key(run: &str, number: u64, body: &[u8]) -> String {
    let digest = Sha256::digest(body);
    let digest: String = digest
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{run}/{number}/{digest}")
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, Batch, EVENTS_MAX, Shape, key};
    use url::Url;

    const LINE: &str = r#"{"uuid":"u","event":"e","distinct_id":"d","properties":{"a": 1},"timestamp":"t","created_at":"c","team_id":1,"historical_migration":false}"#;

    #[test]
    fn the_path_says_what_bodies_look_like() {
        let table = [
            ("https://a.example/batch", Shape::Batch),
            ("https://a.example/x/batch/", Shape::Batch),
            ("https://a.example/batches", Shape::Lines),
            ("https://a.example/", Shape::Lines),
            ("https://batch", Shape::Lines),
        ];
        for (url, shape) in table {
            assert_eq!(Shape::of(&Url::parse(url).unwrap()), shape, "{url}");
        }
    }

    #[test]
    fn bodies_are_what_the_shape_says() {
        let mut lines = Batch::new(Shape::Lines, "t");
        lines.push(LINE).unwrap();
        lines.push(LINE).unwrap();
        assert_eq!(lines.take(), format!("{LINE}\n{LINE}\n"));
        assert_eq!(lines.take(), "");
        let mut batch = Batch::new(Shape::Batch, "a\"b");
        let event =
            r#"{"uuid":"u","event":"e","distinct_id":"d","timestamp":"t","properties":{"a": 1}}"#;
        let head = r#"{"api_key":"a\"b","historical_migration":true,"batch":["#;
        batch.push(LINE).unwrap();
        batch.push(LINE).unwrap();
        assert_eq!(batch.take(), format!("{head}{event},{event}]}}"));
        assert_eq!(batch.take(), format!("{head}]}}"));
        assert!(
            batch
                .push(r#"{"canary":1}"#)
                .is_err_and(|error| !error.message.contains("canary"))
        );
    }

    #[test]
    fn batches_are_bounded_and_one_event_always_has_room() {
        let mut batch = Batch::new(Shape::Lines, "t");
        assert!(!batch.has_no_room_for(BYTES_MAX * 2));
        batch.push(LINE).unwrap();
        assert!(batch.has_no_room_for(BYTES_MAX));
        for _ in 1..EVENTS_MAX {
            assert!(!batch.has_no_room_for(LINE.len()));
            batch.push(LINE).unwrap();
        }
        assert!(batch.has_no_room_for(0));
    }

    #[test]
    fn keys_tell_windows_numbers_and_bytes_apart() {
        let all = [
            key("r", 0, b"a"),
            key("r", 1, b"a"),
            key("s", 0, b"a"),
            key("r", 0, b"b"),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(all.iter().skip(index + 1).all(|other| other != one));
        }
        assert_eq!(key("r", 0, b"a"), all[0]);
    }
}
