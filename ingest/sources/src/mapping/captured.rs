//! Mapping of events in our own format: as clients send them, and as we export them.
//!
//! Nothing is copied and little is read: the name for the counts, the time for the month, and if
//! there is a uuid. The server validates everything else.

use crate::scan::Members;
use crate::{Event, Events, Id, Mapping, RecordError};
use millrace_parse::parse_timestamp;
use std::borrow::Cow;
use std::ops::Range;

/// Mapping that passes events unchanged.
#[derive(Debug, Default)]
pub struct Captured;

/// Ranges of an event's values.
#[derive(Default)]
struct FoundMembers {
    name: Option<Range<usize>>,
    timestamp: Option<Range<usize>>,
    uuid: Option<Range<usize>>,
}

impl Mapping for Captured {
    fn map(&mut self, raw: &[u8], events: &mut Events) -> Result<(), RecordError> {
        let start = raw.len() - raw.trim_ascii_start().len();
        let end = raw.trim_ascii_end().len();
        let found = find_members(raw.get(..end).unwrap_or_default(), start)?;
        let part = |range: &Range<usize>| raw.get(range.clone()).unwrap_or_default();
        let name = found.name.filter(|range| part(range) != b"null");
        let name = name.ok_or_else(|| {
            refused(
                "missing_event",
                "event",
                "There is no `event`. Give the event a name.",
            )
        })?;
        let name = inside(part(&name), &name).ok_or_else(|| {
            refused(
                "invalid_event",
                "event",
                "`event` is not a text. Give the event a name.",
            )
        })?;
        let timestamp = found.timestamp.filter(|range| part(range) != b"null");
        let timestamp = timestamp.ok_or_else(|| {
            refused(
                "missing_timestamp",
                "timestamp",
                "There is no `timestamp`. Without one the event would get the time of its import, and be another \
                 event with each import.",
            )
        })?;
        let text = inside(part(&timestamp), &timestamp).and_then(|range| unescaped(part(&range)));
        let micros = text.and_then(|text| parse_timestamp(&text));
        let micros = micros.ok_or_else(|| {
            refused(
                "invalid_timestamp",
                "timestamp",
                "`timestamp` is not a time that can be stored. Write it as in 2026-01-31T12:00:00.123Z, from 1970 on.",
            )
        })?;
        let has_uuid = found
            .uuid
            .is_some_and(|range| !matches!(part(&range), b"null" | b"\"\""));
        events.push_in_record(Event {
            in_record: true,
            json: start..end,
            name,
            timestamp: Some(micros),
            id: if has_uuid { Id::Own } else { Id::Record },
            generated: false,
        });
        Ok(())
    }
}

/// Finds the members that are read; of members with the same name, the last.
fn find_members(raw: &[u8], start: usize) -> Result<FoundMembers, RecordError> {
    let mut found = FoundMembers::default();
    let mut members = Members::new(raw, start).ok_or_else(|| {
        refused(
            "invalid_json",
            "",
            "This is not a JSON object. Every record has to be one.",
        )
    })?;
    for member in members.by_ref() {
        let name = raw
            .get(member.name_start..member.name_end)
            .unwrap_or_default();
        let name = if name.contains(&b'\\') {
            unescaped(name).unwrap_or_default()
        } else {
            Cow::Borrowed(name)
        };
        let value = Some(member.value_start..member.value_end);
        match &*name {
            b"event" => found.name = value,
            b"timestamp" => found.timestamp = value,
            b"uuid" => found.uuid = value,
            _ => {}
        }
    }
    if members.end() == Some(raw.len()) {
        Ok(found)
    } else {
        Err(refused(
            "invalid_json",
            "",
            "This is not one whole JSON object. Correct or omit the line.",
        ))
    }
}

/// Range between the quotes of a text; `None` when the value is no text.
fn inside(value: &[u8], range: &Range<usize>) -> Option<Range<usize>> {
    value
        .starts_with(b"\"")
        .then_some(range.start + 1..range.end.saturating_sub(1))
}

/// Decodes the escapes of a text.
fn unescaped(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !text.contains(&b'\\') {
        return Some(Cow::Borrowed(text));
    }
    let quoted = [b"\"", text, b"\""].concat();
    let text: String = serde_json::from_slice(&quoted).ok()?;
    Some(Cow::Owned(text.into_bytes()))
}

fn refused(code: &'static str, field: &'static str, message: &str) -> RecordError {
    RecordError {
        code,
        field: (!field.is_empty()).then_some(Cow::Borrowed(field)),
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(raw: &str) -> Result<(Events, Event), &'static str> {
        let mut events = Events::default();
        Captured
            .map(raw.as_bytes(), &mut events)
            .map_err(|error| error.code)?;
        let event = events.list()[0].clone();
        Ok((events, event))
    }

    #[test]
    fn an_event_is_passed_unchanged() {
        let table = [
            (
                r#" {"event":"a","timestamp":"2024-01-31T00:00:00.5Z"} "#,
                "a",
                Id::Record,
            ),
            (
                r#"{"\u0065vent":"\u0061","timestamp":"2024-01-31 00:00:00.5","properties":{"event":1}}"#,
                r"\u0061",
                Id::Record,
            ),
            (
                r#"{"uuid":null,"event":"x","event":"a","timestamp":"2024-01-31T00:00:00.5"}"#,
                "a",
                Id::Record,
            ),
            (
                r#"{"uuid":"0191f99bb49970c4950590a47f19f05a","event":"a","timestamp":"2024-01-31T00:00:00.5\u005a"}"#,
                "a",
                Id::Own,
            ),
        ];
        for (raw, name, id) in table {
            let (_, event) = mapped(raw).unwrap();
            assert_eq!(&raw[event.json.clone()], raw.trim(), "{raw}");
            assert_eq!(&raw[event.name.clone()], name, "{raw}");
            assert_eq!(event.timestamp.unwrap().0, 1_706_659_200_500_000, "{raw}");
            assert_eq!(event.id, id, "{raw}");
        }
    }

    #[test]
    fn an_invalid_event_is_refused_with_the_servers_code() {
        let table = [
            ("", "invalid_json"),
            ("[]", "invalid_json"),
            (r#"{"event":"a""#, "invalid_json"),
            (r#"{"event":"a"},{"event":"b"}"#, "invalid_json"),
            (r#"{"event":"a"}x"#, "invalid_json"),
            (r#"{"timestamp":"2024-01-31"}"#, "missing_event"),
            (
                r#"{"event":null,"timestamp":"2024-01-31"}"#,
                "missing_event",
            ),
            (r#"{"event":7,"timestamp":"2024-01-31"}"#, "invalid_event"),
            (r#"{"event":"a"}"#, "missing_timestamp"),
            (r#"{"event":"a","timestamp":null}"#, "missing_timestamp"),
            (r#"{"event":"a","timestamp":17}"#, "invalid_timestamp"),
            (
                r#"{"event":"a","timestamp":"2024-02-30"}"#,
                "invalid_timestamp",
            ),
            (
                r#"{"event":"a","timestamp":"1969-12-31"}"#,
                "invalid_timestamp",
            ),
        ];
        for (raw, code) in table {
            assert_eq!(mapped(raw).map(|_| ()), Err(code), "{raw}");
        }
    }
}
