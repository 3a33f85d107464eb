//! Batches like those the SDKs send.

use std::fmt::Write as _;

/// Size and content of the requests of one benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Name in reports: event bytes and events per request.
    pub name: &'static str,
    /// Number of events in one request.
    pub events: usize,
    /// Bytes of one event's JSON.
    pub event_bytes: usize,
    /// Number of properties of one event.
    pub properties: usize,
}

/// Workloads of every parse bench. The product's goal is stated for the first.
pub const WORKLOADS: [Workload; 4] = [
    Workload {
        name: "998B_x250",
        events: 250,
        event_bytes: 998,
        properties: 25,
    },
    Workload {
        name: "136B_x1000",
        events: 1_000,
        event_bytes: 136,
        properties: 0,
    },
    Workload {
        name: "998B_x10",
        events: 10,
        event_bytes: 998,
        properties: 25,
    },
    Workload {
        name: "998B_x1",
        events: 1,
        event_bytes: 998,
        properties: 25,
    },
];

/// Rows of a batch that is shipped.
pub const SHIPPED: Workload = Workload {
    name: "998B_x10000",
    events: 10_000,
    event_bytes: 998,
    properties: 25,
};

impl Workload {
    /// Makes a `/batch` body. With `escapes`, one property of each event has an escaped string.
    #[must_use]
    pub fn body(&self, escapes: bool) -> Vec<u8> {
        let mut body = String::from(
            r#"{"api_key":"phc_benchmark000000000000000000000000000000","historical_migration":false,"batch":["#,
        );
        for number in 0..self.events {
            if number > 0 {
                body.push(',');
            }
            body.push_str(&self.event(number, escapes));
        }
        body.push_str(r#"],"sent_at":"2026-11-20T15:38:11.000Z"}"#);
        body.into_bytes()
    }

    fn event(&self, number: usize, escapes: bool) -> String {
        let names = [
            "$pageview",
            "$autocapture",
            "signed up",
            "order placed",
            "$screen",
        ];
        let name = names.get(number % names.len()).copied().unwrap_or("e");
        let mut event = String::with_capacity(self.event_bytes);
        if self.properties == 0 {
            // Writing to a String does not fail.
            let _ = write!(
                event,
                r#"{{"event":"e","distinct_id":"user-{number:06}","timestamp":"2026-11-20T15:38:10.123Z","properties":{{"a":1,"b":"#
            );
        } else {
            let _ = write!(
                event,
                r#"{{"event":"{name}","uuid":"01a1f99b-ad96-7158-8e8e-{number:012x}","distinct_id":"user-{number:08}","timestamp":"2026-11-20T15:38:10.123Z","properties":{{"#
            );
            push_properties(&mut event, self.properties - 1, number, escapes);
            event.push_str(r#""$padding":"#);
        }
        let missing = self.event_bytes.saturating_sub(event.len() + 4);
        event.push('"');
        event.extend(std::iter::repeat_n('x', missing));
        event.push_str("\"}}");
        event
    }
}

/// Writes properties of the kinds and sizes that web analytics has: mostly short strings, some
/// numbers and booleans, one list, one object.
fn push_properties(event: &mut String, count: usize, number: usize, escapes: bool) {
    let quote = if escapes { r#"\"quoted\""# } else { "unquoted" };
    let texts = [
        ("$os", "Linux"),
        ("$browser", "Chrome"),
        ("$device_type", "Desktop"),
        ("$host", "example.com"),
        ("$pathname", "/pricing"),
        ("$referrer", "$direct"),
        ("$lib", "web"),
        ("$lib_version", "1.449.2"),
        ("plan", "enterprise"),
        ("button", quote),
    ];
    for nth in 0..count {
        let _ = match nth {
            0..10 => {
                let (key, value) = texts.get(nth).copied().unwrap_or_default();
                write!(event, r#""{key}":"{value}","#)
            }
            10 => write!(event, r#""tags":["a","b",3],"#),
            11 => write!(event, r#""cart":{{"items":3,"total":19.99}},"#),
            12 => write!(event, r#""is_member":true,"#),
            13 => write!(event, r#""coupon":null,"#),
            14..18 => write!(event, r#""metric_{nth}":{}.{nth},"#, number * 7 + nth),
            18..21 => write!(event, r#""$count_{nth}":{},"#, number + nth),
            _ => write!(event, r#""property_{nth}":"value-{nth}-{number}","#),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_json_of_the_stated_size() {
        for workload in WORKLOADS {
            for number in [0, 249] {
                let event = workload.event(number, false);
                assert_eq!(event.len(), workload.event_bytes, "{event}");
                let value: serde_json::Value = serde_json::from_str(&event).unwrap();
                let properties = value["properties"].as_object().unwrap();
                assert_eq!(properties.len(), workload.properties.max(2), "{event}");
            }
            for escapes in [false, true] {
                serde_json::from_slice::<serde_json::Value>(&workload.body(escapes)).unwrap();
            }
        }
    }
}
