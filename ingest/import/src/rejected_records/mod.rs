//! Rejects: records that gave no event, kept with the reason, to be mended and sent again.
//!
//! The file of rejects is NDJSON. A record that is a JSON object on one line is in `raw` as it is,
//! any other one as a string: the bytes determine its uuid, and stay unchanged until somebody
//! mends them.

mod file;

pub use file::Rejects;
pub(crate) use file::{DedupBy, convert, rewrite};

use millrace_sources::Position;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A record that gave no event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reject {
    /// Name of the file.
    pub file: String,
    /// Line in the file, from 1.
    pub line: u64,
    /// Offset in the decompressed file.
    pub byte_offset: u64,
    /// Ordinal of the record in the file, from 0.
    pub ordinal: u64,
    /// Format of the file, such as `mixpanel`.
    pub format: String,
    /// Stage that refused it.
    pub by: RejectedBy,
    /// Code of the rule that it breaks.
    pub code: String,
    /// Field that breaks the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Reason for people, with advice.
    pub message: String,
    /// Text of the record. Bytes that are not UTF-8 are replaced, and cannot be replayed.
    #[serde(serialize_with = "write_raw", deserialize_with = "read_raw")]
    pub raw: String,
}

/// Stage that refused a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RejectedBy {
    /// The mapping made no event of it.
    Mapping,
    /// The server refused its event.
    Server,
}

/// Reason for which a record was refused.
#[derive(Clone, Copy, Debug)]
pub struct RejectReason<'a> {
    /// Stage that refused it.
    pub by: RejectedBy,
    /// Code of the rule that it breaks.
    pub code: &'a str,
    /// Field that breaks the rule.
    pub field: Option<&'a str>,
    /// Reason for people.
    pub message: &'a str,
}

impl Reject {
    /// Creates a reject of a record at a position.
    #[must_use]
    pub fn new(
        file: &str,
        format: &str,
        at: Position,
        raw: &[u8],
        reason: RejectReason<'_>,
    ) -> Self {
        Self {
            file: file.to_owned(),
            line: at.line + 1,
            byte_offset: at.offset,
            ordinal: at.ordinal,
            format: format.to_owned(),
            by: reason.by,
            code: reason.code.to_owned(),
            field: reason.field.map(str::to_owned),
            message: reason.message.to_owned(),
            raw: match String::from_utf8_lossy(raw) {
                Cow::Borrowed(text) => text.to_owned(),
                Cow::Owned(text) => text,
            },
        }
    }
}

impl Reject {
    /// Position of the record in its file.
    #[must_use]
    pub fn position(&self) -> Position {
        Position {
            offset: self.byte_offset,
            ordinal: self.ordinal,
            line: self.line.saturating_sub(1),
        }
    }
}

fn write_raw<S: Serializer>(raw: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let is_object = raw.starts_with('{') && !raw.contains(['\n', '\r']);
    match serde_json::from_str::<&RawValue>(raw) {
        Ok(value) if is_object => value.serialize(serializer),
        _ => raw.serialize(serializer),
    }
}

fn read_raw<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let value = Box::<RawValue>::deserialize(deserializer)?;
    let text = value.get();
    if text.starts_with('"') {
        return serde_json::from_str(text).map_err(serde::de::Error::custom);
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_raw_record_is_written_as_an_object_or_a_string_and_keeps_its_bytes() {
        let table = [
            (r#"{"a":1}"#, json!({ "a": 1 })),
            (r#"{ "b" : 1.0, "a":1e999 }"#, Value::Null),
            (r#"{"a":"\ud83d \u00e4","a":2}"#, Value::Null),
            ("{\"a\":\n1}", json!("{\"a\":\n1}")),
            (r#"{"a":tru}"#, json!(r#"{"a":tru}"#)),
            (r#""text""#, json!(r#""text""#)),
            ("[1]", json!("[1]")),
            ("17", json!("17")),
            ("a\tb", json!("a\tb")),
            ("", json!("")),
        ];
        for (raw, expected) in table {
            let reason = RejectReason {
                by: RejectedBy::Mapping,
                code: "invalid_json",
                field: None,
                message: "No.",
            };
            let reject = Reject::new("a", "captured", Position::default(), raw.as_bytes(), reason);
            let line = serde_json::to_string(&reject).unwrap();
            assert!(!line.contains('\n'), "{line}");
            let again: Reject = serde_json::from_str(&line).unwrap();
            assert_eq!(again, reject);
            if expected.is_null() {
                assert!(line.contains(&format!(r#""raw":{raw}"#)), "{line}");
            } else {
                let line: Value = serde_json::from_str(&line).unwrap();
                assert_eq!(line["raw"], expected);
            }
        }
    }
}
