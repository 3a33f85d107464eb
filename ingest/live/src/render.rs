//! JSON of an event, for viewers who may see the client's address and for those who may not.

use crate::event::{EventOutcome, IP, LiveEvent, Properties};
use crate::filter::Fate;
use millrace_rows::Micros;
use serde::{Serialize, Serializer};
use std::net::IpAddr;
use uuid::Uuid;

/// Bytes of an event up to which its properties are shown.
const SHOWN_BYTES_MAX: usize = 16 << 10;

/// Event that is about to be sent, with its JSON as far as it was needed.
pub struct Rendered<'a> {
    event: &'a LiveEvent,
    id: String,
    fate: Fate,
    with_ip: Option<String>,
    without_ip: Option<String>,
}

#[derive(Serialize)]
struct Body<'a> {
    id: &'a str,
    fate: Fate,
    uuid: Option<Uuid>,
    event: Option<&'a str>,
    distinct_id: Option<&'a str>,
    timestamp: Option<String>,
    received_at: Option<String>,
    historical_migration: bool,
    lib: Option<&'a str>,
    lib_version: Option<&'a str>,
    bytes: usize,
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_ip: Option<IpAddr>,
    code: Option<&'a str>,
    attr: Option<&'a str>,
    detail: Option<&'a str>,
    warnings: Option<&'a [&'static str]>,
    properties: Option<ShownProperties<'a>>,
}

/// Properties without those that the viewer may not see.
struct ShownProperties<'a> {
    all: &'a Properties,
    shows_ip: bool,
}

impl Serialize for ShownProperties<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shown = self.all.iter();
        let shown = shown.filter(|(name, _)| self.shows_ip || name.as_str() != IP);
        serializer.collect_map(shown)
    }
}

// === impl Rendered ===

impl<'a> Rendered<'a> {
    /// Event that is not rendered yet; `node` tells its number from those of other nodes.
    pub fn of(event: &'a LiveEvent, node: &str, fate: Fate) -> Self {
        Self {
            event,
            id: id_of(event.number, node),
            fate,
            with_ip: None,
            without_ip: None,
        }
    }

    /// Id of the event in the stream.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// JSON of the event for a viewer who may see addresses, or may not.
    pub fn json(&mut self, shows_ip: bool) -> &str {
        let kept = match shows_ip {
            true => &mut self.with_ip,
            false => &mut self.without_ip,
        };
        let (event, id, fate) = (self.event, &self.id, self.fate);
        kept.get_or_insert_with(|| json(event, id, fate, shows_ip))
    }
}

/// Id of an event in the stream.
pub fn id_of(number: u64, node: &str) -> String {
    format!("{number}-{node}")
}

/// Number of an event by its id in the stream.
pub fn number_of(id: &str) -> Option<u64> {
    id.split('-').next()?.parse().ok()
}

fn json(event: &LiveEvent, id: &str, fate: Fate, shows_ip: bool) -> String {
    let (code, attr, detail) = match &event.outcome {
        EventOutcome::Logged { .. } => (None, None, None),
        EventOutcome::Rejected { code, attr, detail } => {
            (Some(&**code), Some(&**attr), Some(&**detail))
        }
    };
    let properties = event.properties.as_ref();
    let properties = properties.filter(|_| event.bytes <= SHOWN_BYTES_MAX);
    let body = Body {
        id,
        fate,
        uuid: event.uuid,
        event: event.event.as_deref(),
        distinct_id: event.distinct_id.as_deref(),
        timestamp: event.timestamp.and_then(time),
        received_at: time(event.received_at),
        historical_migration: event.is_historical,
        lib: event.lib.as_deref(),
        lib_version: event.lib_version.as_deref(),
        bytes: event.bytes,
        key: event.key.as_deref(),
        client_ip: event.client_ip.filter(|_| shows_ip),
        code,
        attr: attr.filter(|attr| !attr.is_empty()),
        detail,
        warnings: event.warnings.as_deref(),
        properties: properties.map(|all| ShownProperties { all, shows_ip }),
    };
    // Fails for no such value.
    let json = serde_json::to_string(&body).unwrap_or_default();
    // Values are as they were sent, with line feeds between their parts; messages are lines.
    match json.contains(['\n', '\r']) {
        true => json.replace(['\n', '\r'], " "),
        false => json,
    }
}

/// Time in ISO 8601; `None` outside of the calendar.
fn time(at: Micros) -> Option<String> {
    let at = jiff::Timestamp::from_microsecond(at.0).ok()?;
    Some(at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::decoded;
    use crate::testing::{event_group, event_group_of, facts, logged, rejected_group};
    use serde_json::{Value, json};

    fn value(event: &LiveEvent, fate: Fate, shows_ip: bool) -> Value {
        let mut rendered = Rendered::of(event, "n1", fate);
        serde_json::from_str(rendered.json(shows_ip)).unwrap()
    }

    #[test]
    fn an_accepted_event_is_shown_with_its_sdk_and_properties() {
        let events = decoded(
            &logged(vec![event_group(202_611, &["page"])], facts(1, 0)),
            || 7,
        );
        let expected = json!({
            "id": "7-n1",
            "fate": "logged",
            "uuid": "00000000-0000-0000-0000-000000000001",
            "event": "page",
            "distinct_id": "ann",
            "timestamp": "2026-11-20T14:38:00Z",
            "received_at": "2026-11-20T14:38:00Z",
            "historical_migration": false,
            "lib": "web",
            "lib_version": "1.2.3",
            "bytes": events[0].bytes,
            "key": "phc_...last",
            "code": null,
            "attr": null,
            "detail": null,
            "warnings": [],
            "properties": { "$lib": "web", "$lib_version": "1.2.3", "plan": "pro", "n": 7 },
        });
        assert_eq!(value(&events[0], Fate::Logged, false), expected);
        let stored = value(&events[0], Fate::Stored, false);
        assert_eq!(stored["fate"], "stored");
    }

    #[test]
    fn addresses_are_shown_to_those_who_may_see_them_only() {
        let groups = vec![
            event_group(202_611, &["page"]),
            rejected_group(&[r#"{"properties":{"$ip":"192.0.2.1","a":1}}"#]),
        ];
        for event in decoded(&logged(groups, facts(1, 1)), || 1) {
            let without = value(&event, Fate::Logged, false).to_string();
            assert!(!without.contains("192.0.2.1"), "{without}");
            let with = value(&event, Fate::Logged, true);
            assert_eq!(with["client_ip"], "192.0.2.1");
            assert_eq!(with["properties"]["$ip"], "192.0.2.1");
        }
    }

    #[test]
    fn a_rejected_event_has_code_attr_and_detail() {
        let events = decoded(&logged(vec![rejected_group(&["{}"])], facts(0, 1)), || 1);
        let shown = value(&events[0], Fate::Rejected, false);
        assert_eq!(shown["code"], "missing_event");
        assert_eq!(shown["attr"], "batch[0].event");
        assert_eq!(shown["detail"], "The event has no name.");
        assert_eq!((&shown["bytes"], &shown["uuid"]), (&json!(2), &Value::Null));
    }

    #[test]
    fn properties_of_large_events_are_left_out() {
        for (bytes, is_shown) in [(8 << 10, true), (17 << 10, false)] {
            let properties = format!(r#"{{"$lib":"web","long":"{}"}}"#, "x".repeat(bytes));
            let group = event_group_of(202_611, &[("page", properties.as_str())]);
            let events = decoded(&logged(vec![group], facts(1, 0)), || 1);
            let shown = value(&events[0], Fate::Logged, false);
            assert_eq!(shown["properties"].is_object(), is_shown, "{bytes}");
            assert_eq!(shown["lib"], "web");
        }
    }

    #[test]
    fn the_json_is_one_line_whatever_was_sent() {
        let group = event_group_of(202_611, &[("page", "{\"a\":\r\n{\n\"b\": 1}\r}")]);
        let events = decoded(&logged(vec![group], facts(1, 0)), || 1);
        let mut rendered = Rendered::of(&events[0], "n1", Fate::Logged);
        let json = rendered.json(false);
        assert!(!json.contains(['\n', '\r']), "{json}");
        let shown: Value = serde_json::from_str(json).unwrap();
        assert_eq!(shown["properties"], json!({ "a": { "b": 1 } }));
    }

    #[test]
    fn ids_have_the_number_of_their_event() {
        for (id, expected) in [("7-n1", Some(7)), ("7", Some(7)), ("x-7", None), ("", None)] {
            assert_eq!(number_of(id), expected, "{id}");
        }
        assert_eq!(number_of(&id_of(12, "a-b")), Some(12));
    }
}
