//! Instants on the wire: any offset is accepted, times without one are refused; UTC is written,
//! with microseconds only if there are any.

use super::UtcTime;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;

impl Serialize for UtcTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UtcTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("not a time with a zone in ISO 8601"))
    }
}

impl JsonSchema for UtcTime {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_offset_is_accepted_and_utc_is_written() {
        let table = [
            ("2025-03-01T10:00:00Z", Some("2025-03-01T10:00:00Z")),
            ("2025-03-01T10:00:00+02:00", Some("2025-03-01T08:00:00Z")),
            (
                "2025-03-01T10:00:00.250000-0130",
                Some("2025-03-01T11:30:00.250000Z"),
            ),
            ("2025-03-01T10:00Z", Some("2025-03-01T10:00:00Z")),
            ("20250301T100000Z", Some("2025-03-01T10:00:00Z")),
            (
                "2025-03-01T10:00:00.1234567Z",
                Some("2025-03-01T10:00:00.123456Z"),
            ),
            ("2025-03-01T10:00:00", None),
            ("2025-03-01", None),
            ("2025-02-30T10:00:00Z", None),
            ("now", None),
            ("", None),
        ];
        for (text, expected) in table {
            let read = serde_json::from_value::<UtcTime>(text.into()).ok();
            let written = read.map(|at| serde_json::to_value(at).unwrap());
            assert_eq!(
                written.as_ref().and_then(|at| at.as_str()),
                expected,
                "{text:?}"
            );
        }
    }
}
