//! Rejected event with corrections, as it is sent again.
//!
//! Sending again is safe to repeat: an event without an id gets one made from its request and
//! index, and one without a time gets the time it was received, so that a second attempt stores the
//! same row again.

use super::fields;
use super::mapping::Mapping;
use anyhow::anyhow;
use millrace_catalog::UtcTime;
use millrace_clickhouse::RejectedEvent;
use serde_json::value::{RawValue, to_raw_value};
use uuid::Uuid;

/// Rejected event, and its JSON with corrections.
#[derive(Debug)]
pub struct CorrectedEvent<'a> {
    /// The event as it was rejected.
    pub event: &'a RejectedEvent,
    /// Its JSON as it is sent.
    pub json: Box<RawValue>,
}

impl<'a> CorrectedEvent<'a> {
    /// Changes fields, and sets an id and a time where the event has none.
    ///
    /// # Errors
    /// When the event is no JSON object, or a field cannot be changed.
    pub fn new(event: &'a RejectedEvent, raw: &str, mapping: &Mapping) -> anyhow::Result<Self> {
        let fields = fields::parse(raw).map_err(|_| {
            anyhow!("it is not a JSON object, or not all of it was kept; send an event in its place to /batch/")
        })?;
        let mut fields = mapping.apply(fields)?;
        let name = format!("{}/{}", event.request_id, event.index);
        let uuid = Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes());
        let own = [
            ("uuid", uuid.to_string()),
            ("timestamp", time_text(event.received_at)),
        ];
        for (name, value) in own {
            if fields.get(name).is_none_or(|value| value.get() == "null") {
                fields.insert(name.to_owned(), to_raw_value(&value)?);
            }
        }
        let json = to_raw_value(&fields)?;
        Ok(Self { event, json })
    }
}

/// Formats microseconds since 1970, with no more digits than the fraction of the second has.
#[must_use]
pub fn time_text(micros: i64) -> String {
    UtcTime(micros)
        .checked_datetime()
        .filter(|at| at.year() >= 0)
        .map_or_else(|| micros.to_string(), |at| format!("{at}Z"))
}

#[cfg(test)]
mod tests {
    use super::super::fields::FieldPath;
    use super::*;
    use serde_json::Value;

    fn event() -> RejectedEvent {
        RejectedEvent {
            team_id: 1,
            received_at: 1_700_000_000_000_000,
            request_id: "r".to_owned(),
            index: 3,
            code: "missing_distinct_id".to_owned(),
            attr: String::new(),
            detail: String::new(),
            historical_migration: false,
            resent_at: 0,
        }
    }

    #[test]
    fn a_corrected_event_keeps_the_other_fields_byte_for_byte() {
        let uuid = r#""uuid":"f1c8b9a4""#;
        let at = r#""timestamp":"2023-11-14T22:13:20Z""#;
        let table = [
            (
                format!(
                    r#"{{"event":"e","properties":{{"n":123456789012345678901.50,"s":"\ud800"}},{uuid}}}"#
                ),
                format!(
                    r#"{{"distinct_id":"ada","event":"e","properties":{{"n":123456789012345678901.50,"s":"\ud800"}},{at},{uuid}}}"#
                ),
            ),
            (
                format!(r#"{{"distinct_id":7,"timestamp":null,{uuid}}}"#),
                format!(r#"{{"distinct_id":"ada",{at},{uuid}}}"#),
            ),
        ];
        let mapping = Mapping {
            set: vec![(FieldPath::of("distinct_id"), Value::from("ada"))],
            ..Mapping::default()
        };
        for (raw, expected) in table {
            let event = event();
            let corrected = CorrectedEvent::new(&event, &raw, &mapping).unwrap();
            assert_eq!(corrected.json.get(), expected);
        }
    }

    #[test]
    fn an_event_without_an_id_gets_the_same_id_each_time() {
        let event = event();
        let made = || {
            let corrected =
                CorrectedEvent::new(&event, r#"{"uuid":null}"#, &Mapping::default()).unwrap();
            corrected.json.get().to_owned()
        };
        assert!(made().contains(r#""uuid":""#));
        assert_eq!(made(), made());
    }

    #[test]
    fn json_that_is_no_object_cannot_be_sent() {
        let event = event();
        for raw in ["17", r#""text""#, "[]", "", "{"] {
            let corrected = CorrectedEvent::new(&event, raw, &Mapping::default());
            assert!(corrected.is_err(), "{raw}");
        }
    }
}
