//! Bodies of batches of events.

use crate::error::ExportError;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use url::Url;

/// Events of a batch at most.
const EVENTS_MAX: usize = 1_000;
/// Bytes of a batch with more than one event at most.
const BYTES_MAX: usize = 4 << 20;

/// Format of a batch's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyFormat {
    /// One JSON object per line.
    Lines,
    /// Format of our own ingestion endpoint.
    Batch,
}

impl BodyFormat {
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

/// Batch of events that grows into a body.
pub(super) struct Batch {
    body_format: BodyFormat,
    /// Beginning of each body.
    head: String,
    body: String,
    events: usize,
}

/// Event as it is sent to ingestion: fields that ingestion sets itself are left out.
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
    pub(super) fn new(body_format: BodyFormat, token: &str) -> Self {
        let head = match body_format {
            BodyFormat::Lines => String::new(),
            BodyFormat::Batch => {
                let token = json!(token);
                format!(r#"{{"api_key":{token},"historical_migration":true,"batch":["#)
            }
        };
        Self {
            body_format,
            body: head.clone(),
            head,
            events: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events == 0
    }

    /// Returns true if an event of this size belongs into the next batch.
    pub(super) fn is_full_for(&self, bytes: usize) -> bool {
        let full = self.events >= EVENTS_MAX || self.body.len() + bytes > BYTES_MAX;
        !self.is_empty() && full
    }

    /// Appends an event.
    ///
    /// # Errors
    /// The row lacks a column of an event.
    pub(super) fn push(&mut self, line: &str) -> Result<(), ExportError> {
        match self.body_format {
            BodyFormat::Lines => {
                self.body += line;
                self.body.push('\n');
            }
            BodyFormat::Batch => {
                if !self.is_empty() {
                    self.body.push(',');
                }
                self.body += &event(line)?;
            }
        }
        self.events += 1;
        Ok(())
    }

    /// Takes the body, and begins the next one.
    pub(super) fn take(&mut self) -> Bytes {
        if self.body_format == BodyFormat::Batch {
            self.body += "]}";
        }
        self.events = 0;
        Bytes::from(std::mem::replace(&mut self.body, self.head.clone()))
    }
}

fn event(line: &str) -> Result<String, ExportError> {
    let wrong = |_| ExportError::permanent("A row lacks columns that events need.");
    let event: Event<'_> = serde_json::from_str(line).map_err(wrong)?;
    let properties = event
        .properties
        .map_or(Cow::Borrowed("{}"), |raw| raw.get().into());
    Ok(format!(
        r#"{{"uuid":{},"event":{},"distinct_id":{},"timestamp":{},"properties":{properties}}}"#,
        event.uuid, event.event, event.distinct_id, event.timestamp,
    ))
}

/// Idempotency key of a batch, the same for each time that it is sent. If ClickHouse returns other
/// rows the next time, or in another order, the key is another one.
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
    use super::{BYTES_MAX, Batch, BodyFormat, EVENTS_MAX, key};
    use url::Url;

    const LINE: &str = r#"{"uuid":"u","event":"e","distinct_id":"d","properties":{"a": 1},"timestamp":"t","created_at":"c","team_id":1,"historical_migration":false}"#;

    #[test]
    fn the_path_decides_the_body_format() {
        let table = [
            ("https://a.example/batch", BodyFormat::Batch),
            ("https://a.example/x/batch/", BodyFormat::Batch),
            ("https://a.example/batches", BodyFormat::Lines),
            ("https://a.example/", BodyFormat::Lines),
            ("https://batch", BodyFormat::Lines),
        ];
        for (url, body_format) in table {
            assert_eq!(
                BodyFormat::of(&Url::parse(url).unwrap()),
                body_format,
                "{url}"
            );
        }
    }

    #[test]
    fn bodies_are_json_lines_or_one_batch_object() {
        let mut lines = Batch::new(BodyFormat::Lines, "t");
        lines.push(LINE).unwrap();
        lines.push(LINE).unwrap();
        assert_eq!(lines.take(), format!("{LINE}\n{LINE}\n"));
        assert_eq!(lines.take(), "");
        let mut batch = Batch::new(BodyFormat::Batch, "a\"b");
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
    fn batches_are_bounded_but_take_at_least_one_event() {
        let mut batch = Batch::new(BodyFormat::Lines, "t");
        assert!(!batch.is_full_for(BYTES_MAX * 2));
        batch.push(LINE).unwrap();
        assert!(batch.is_full_for(BYTES_MAX));
        for _ in 1..EVENTS_MAX {
            assert!(!batch.is_full_for(LINE.len()));
            batch.push(LINE).unwrap();
        }
        assert!(batch.is_full_for(0));
    }

    #[test]
    fn keys_differ_by_window_number_and_bytes() {
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
