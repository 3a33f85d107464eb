//! Event of the live stream.

use millrace_log::Position;
use millrace_rows::{Lane, Micros};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::net::IpAddr;
use uuid::Uuid;

/// Property with the client's address.
pub const IP: &str = "$ip";
/// Bytes of a text that are kept, but for properties.
const TEXT_BYTES_MAX: usize = 1_024;

/// Properties by name, with their values as JSON text.
pub type Properties = BTreeMap<String, Box<RawValue>>;

/// Event of the live stream, with all that any viewer may see of it.
#[derive(Debug)]
pub struct LiveEvent {
    /// Number of the event, unique and ascending: about the time at which the hub saw it.
    pub number: u64,
    pub uuid: Option<Uuid>,
    pub event: Option<String>,
    pub distinct_id: Option<String>,
    pub timestamp: Option<Micros>,
    pub received_at: Micros,
    pub is_historical: bool,
    /// SDK, by the properties `$lib` and `$lib_version`.
    pub lib: Option<String>,
    pub lib_version: Option<String>,
    /// Properties, if they can be read.
    pub properties: Option<Properties>,
    /// Bytes of the row, or of a rejected event's JSON.
    pub bytes: usize,
    pub key: Option<String>,
    pub client_ip: Option<IpAddr>,
    pub outcome: EventOutcome,
    /// Codes of the warnings about the event; `None` if they cannot be told from those about others
    /// of its request.
    pub warnings: Option<Vec<&'static str>>,
}

/// Outcome of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventOutcome {
    /// Its row is in a lane's log, below a position.
    Logged { lane: Lane, position: Position },
    /// It was rejected.
    Rejected {
        code: String,
        attr: String,
        detail: String,
    },
}

// === impl LiveEvent ===

impl LiveEvent {
    /// Code of the rejection.
    pub fn code(&self) -> Option<&str> {
        match &self.outcome {
            EventOutcome::Logged { .. } => None,
            EventOutcome::Rejected { code, .. } => Some(code),
        }
    }

    /// Returns true if a code is that of the rejection, or of a warning.
    pub fn has_code(&self, code: &str) -> bool {
        let warnings = self.warnings.as_deref().unwrap_or_default();
        self.code() == Some(code) || warnings.contains(&code)
    }
}

/// Text of a value that is a string in JSON.
pub fn string_of(value: &RawValue) -> Option<String> {
    // Fails for all other values.
    serde_json::from_str(value.get()).ok()
}

/// Text of a property that is a string, shortened.
pub fn short_property(properties: &Properties, name: &str) -> Option<String> {
    let text = string_of(properties.get(name)?)?;
    Some(shortened(&text))
}

/// Beginning of a text, up to a length that messages bear.
pub fn shortened(text: &str) -> String {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_within_their_limit_and_between_characters() {
        let table = [
            ("a".repeat(5), 5),
            ("a".repeat(2_000), 1_024),
            ("é".repeat(1_000), 1_024),
            (format!("a{}", "é".repeat(1_000)), 1_023),
        ];
        for (text, bytes) in table {
            assert_eq!(shortened(&text).len(), bytes);
        }
    }

    #[test]
    fn only_strings_have_a_text() {
        let table = [
            (r#""a\u00e9""#, Some("aé")),
            (r#""\ud800""#, None),
            ("7", None),
            (r#"{"a":1}"#, None),
        ];
        for (json, expected) in table {
            let value = RawValue::from_string(json.to_owned()).unwrap();
            assert_eq!(string_of(&value).as_deref(), expected, "{json}");
        }
    }
}
