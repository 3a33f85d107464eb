//! Size and shape of one event.
//!
//! Events imitate a browser SDK's: strings, numbers, booleans, URLs with escapes, a nested array,
//! some text that is not ASCII. Each has exactly the requested number of bytes.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Number of properties of an event that is large enough for all.
pub const PROPERTIES: usize = 25;
/// Lowest size of an event in bytes.
pub const EVENT_BYTES_MIN: usize = 130;
/// Size of the default event in bytes, with all properties.
pub const EVENT_BYTES_DEFAULT: usize = 998;
/// Size of the `small` event in bytes, with one property.
pub const EVENT_BYTES_SMALL: usize = 136;
/// Number of events of one visitor.
const VISIT_EVENTS: u32 = 10;

/// Similarity of the events of a batch.
///
/// It decides the cost of compression, where synthetic load easily differs from real load. LZ4
/// compresses 31 events that posthog-js 1.449.2 sent to 0.14 of their size, `Visits` to 0.13 in
/// half as much time again, `Random` to 0.25 in three times the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum EventShape {
    /// Ten events in a row belong to one visitor and share browser and session; pages, ids, times
    /// and amounts differ. Real SDKs send such events.
    Visits,
    /// All values differ and texts are random words: the hardest case.
    Random,
}

/// Parses the size of an event: `default`, `small` or a number of bytes.
///
/// # Errors
/// It is none of these, or too small, in a sentence.
pub fn parse_event_bytes(text: &str) -> Result<usize, String> {
    match text {
        "default" => Ok(EVENT_BYTES_DEFAULT),
        "small" => Ok(EVENT_BYTES_SMALL),
        _ => match text.parse() {
            Ok(bytes) if bytes >= EVENT_BYTES_MIN => Ok(bytes),
            _ => Err(format!(
                "{text:?} is not `default`, `small` or a number from {EVENT_BYTES_MIN}"
            )),
        },
    }
}

impl EventShape {
    /// Shape of the events of result files that do not name one.
    #[must_use]
    pub const fn of_old_files() -> Self {
        Self::Random
    }
}

/// JSON of one event, with the positions of its changing fields.
#[derive(Clone, Debug)]
pub struct EventText {
    /// The JSON object.
    pub json: String,
    /// Position of the uuid's text.
    pub uuid_at: usize,
    /// Position of the timestamp's text.
    pub timestamp_at: usize,
}

/// Events of one connection's batch.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// Similarity of the events.
    pub shape: EventShape,
    /// Number of the connection; no two connections have the same visitors.
    pub connection: u16,
    /// Length of each event in bytes; at least [`EVENT_BYTES_MIN`].
    pub event_bytes: usize,
}

/// Random sources of one event's values.
struct Values {
    /// Values that a visitor's events share.
    visit: StdRng,
    /// Values of the event alone.
    event: StdRng,
}

impl Batch {
    /// Event at `index`.
    ///
    /// `uuid` is the text of its id. The timestamp's seconds are patched later, its milliseconds
    /// stay.
    #[must_use]
    pub fn event(&self, index: u32, uuid: &str) -> EventText {
        let mut values = self.values(index);
        let head = "{\"uuid\":\"";
        let middle = "\",\"timestamp\":\"";
        let timestamp_at = head.len() + uuid.len() + middle.len();
        let visitor = values.visit.random_range(0..50_000);
        let (fraction, name, user) = if self.event_bytes < 300 {
            (String::new(), "e", format!("{:03}", visitor % 1000))
        } else {
            (
                format!(".{:03}", values.event.random_range(0..1000)),
                "$pageview",
                format!("user-{visitor:08}"),
            )
        };
        let mut json = format!("{head}{uuid}{middle}1970-01-01T00:00:00{fraction}Z");
        let _ = write!(
            json,
            "\",\"event\":\"{name}\",\"distinct_id\":\"{user}\",\"properties\":{{"
        );
        put_properties(&mut json, &mut values, self.event_bytes.saturating_sub(2));
        json.push_str("}}");
        EventText {
            json,
            uuid_at: head.len(),
            timestamp_at,
        }
    }

    fn values(&self, index: u32) -> Values {
        let connection = u64::from(self.connection) << 32;
        let visit = match self.shape {
            EventShape::Visits => index / VISIT_EVENTS,
            EventShape::Random => index,
        };
        Values {
            visit: StdRng::seed_from_u64(!(connection | u64::from(visit))),
            event: StdRng::seed_from_u64(connection | u64::from(index)),
        }
    }
}

/// Appends properties until the text is exactly `until` bytes long.
fn put_properties(json: &mut String, values: &mut Values, until: usize) {
    // `"t":""` is the shortest property that can fill a gap.
    const FILLER_BYTES_MIN: usize = 6;
    for (key, value) in properties(values) {
        let property = format!("\"{key}\":{value}");
        let end = json.len() + property.len();
        if end == until {
            json.push_str(&property);
            return;
        }
        if end + 1 + FILLER_BYTES_MIN <= until {
            json.push_str(&property);
            json.push(',');
        }
    }
    let gap = until.saturating_sub(json.len());
    if gap < FILLER_BYTES_MIN {
        // The gap is too short for a property: white space is JSON, too.
        json.extend(std::iter::repeat_n(' ', gap));
        return;
    }
    json.push_str("\"t\":\"");
    put_words(json, &mut values.visit, gap - FILLER_BYTES_MIN);
    json.push('"');
}

/// All properties but the last, which fills the remaining bytes.
fn properties(values: &mut Values) -> [(&'static str, String); PROPERTIES - 1] {
    let Values { visit, event } = values;
    let mut kept = |below: u64| visit.random_range(0..below);
    let mut own = |below: u64| event.random_range(0..below);
    let page = own(5000);
    [
        ("n", (10 + own(90)).to_string()),
        (
            "$current_url",
            format!("\"https:\\/\\/shop.example.com\\/products\\/{page:04}?ref=mail\""),
        ),
        ("$host", "\"shop.example.com\"".to_owned()),
        ("$pathname", format!("\"\\/products\\/{page:04}\"")),
        ("$browser", "\"Firefox\"".to_owned()),
        ("$browser_version", (100 + kept(40)).to_string()),
        ("$os", "\"Mac OS X\"".to_owned()),
        ("$os_version", "\"10.15.7\"".to_owned()),
        ("$device_type", "\"Desktop\"".to_owned()),
        ("$screen_height", (700 + kept(300)).to_string()),
        ("$screen_width", (1100 + kept(900)).to_string()),
        ("$lib", "\"web\"".to_owned()),
        ("$lib_version", "\"1.398.0\"".to_owned()),
        ("$insert_id", format!("\"{:016x}\"", own(u64::MAX))),
        (
            "$session_id",
            format!("\"{:016x}{:016x}\"", kept(u64::MAX), kept(u64::MAX)),
        ),
        (
            "$time",
            format!("{}.{:03}", 1_790_000_000 + own(9_000_000), own(1000)),
        ),
        ("$is_identified", (kept(2) == 1).to_string()),
        ("$referrer", "\"$direct\"".to_owned()),
        ("$timezone", "\"Europe\\/Berlin\"".to_owned()),
        ("city", "\"Köln – Ehrenfeld\"".to_owned()),
        ("price", format!("{}.{:02}", own(900), own(100))),
        ("tags", "[\"new\",\"sale\",null]".to_owned()),
        (
            "cart",
            format!("{{\"items\":{},\"currency\":\"EUR\"}}", own(9)),
        ),
        ("plan", "\"team\"".to_owned()),
    ]
}

/// Appends words of exactly `bytes` bytes in total.
fn put_words(json: &mut String, rng: &mut StdRng, bytes: usize) {
    const WORDS: [&str; 12] = [
        "checkout",
        "banner",
        "hero",
        "a",
        "primary",
        "click",
        "footer",
        "newsletter",
        "de",
        "nav",
        "item",
        "variant",
    ];
    let end = json.len() + bytes;
    while json.len() < end {
        let word = WORDS.get(rng.random_range(0..WORDS.len())).unwrap_or(&"x");
        let room = end - json.len();
        json.push_str(word.get(..room.min(word.len())).unwrap_or(word));
        if json.len() < end {
            json.push(' ');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;
    use std::collections::BTreeSet;

    const UUID: &str = "1a2b3c4d-0102-8000-8003-040506070809";

    const fn batch(shape: EventShape, event_bytes: usize) -> Batch {
        Batch {
            shape,
            connection: 7,
            event_bytes,
        }
    }

    fn value(batch: Batch, index: u32) -> Value {
        serde_json::from_str(&batch.event(index, UUID).json).unwrap()
    }

    proptest! {
        #[test]
        fn an_event_is_json_of_the_length_asked_for(
            index in any::<u32>(),
            bytes in EVENT_BYTES_MIN..5000,
            visits in any::<bool>(),
        ) {
            let shape = if visits { EventShape::Visits } else { EventShape::Random };
            let event = batch(shape, bytes).event(index, UUID);
            prop_assert_eq!(event.json.len(), bytes, "{}", event.json);
            let value: Value = serde_json::from_str(&event.json).unwrap();
            prop_assert_eq!(value["uuid"].as_str(), Some(UUID));
            prop_assert_eq!(&event.json[event.uuid_at..][..UUID.len()], UUID);
            prop_assert!(event.json[event.timestamp_at..].starts_with("1970-01-01T00:00:00"));
        }
    }

    #[test]
    fn presets_have_the_documented_number_of_properties() {
        for shape in [EventShape::Visits, EventShape::Random] {
            for (bytes, properties) in [(998, PROPERTIES), (136, 1), (10_000, PROPERTIES)] {
                for index in 0..1000 {
                    let event = value(batch(shape, bytes), index);
                    let found = event["properties"].as_object().unwrap().len();
                    assert_eq!(found, properties, "{event}");
                }
            }
        }
    }

    #[test]
    fn ten_events_share_a_visitors_session() {
        let events: Vec<_> = (0..250)
            .map(|index| value(batch(EventShape::Visits, 998), index))
            .collect();
        let ids: BTreeSet<_> = events
            .iter()
            .map(|event| event["properties"]["$insert_id"].to_string())
            .collect();
        assert_eq!(ids.len(), 250);
        let visitors: BTreeSet<_> = events
            .chunks(10)
            .map(|visit| {
                for kept in ["$session_id", "$screen_width", "$browser_version"] {
                    let first = &visit[0]["properties"][kept];
                    assert!(
                        visit
                            .iter()
                            .all(|event| event["properties"][kept] == *first)
                    );
                }
                visit[0]["distinct_id"].to_string()
            })
            .collect();
        assert_eq!(visitors.len(), 25);
    }

    #[test]
    fn random_events_and_different_connections_share_no_session() {
        let session =
            |batch: Batch, index| value(batch, index)["properties"]["$session_id"].clone();
        let random = batch(EventShape::Random, 998);
        assert_ne!(session(random, 0), session(random, 1));
        let visits = batch(EventShape::Visits, 998);
        let other = Batch {
            connection: 8,
            ..visits
        };
        assert_ne!(session(visits, 0), session(other, 0));
    }
}
