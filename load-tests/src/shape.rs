//! What one event looks like.
//!
//! Events imitate a browser SDK's: strings, numbers, booleans, URLs with escapes, a nested array,
//! some text that is not ASCII. Each has exactly the number of bytes asked for and the values differ
//! from event to event, so that neither compression nor branch prediction has it too easy.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::fmt::Write;

/// Properties of an event that has room for them.
pub const PROPERTIES: usize = 25;
/// Least bytes of an event.
pub const EVENT_BYTES_MIN: usize = 130;

/// One event's JSON and where its changing fields are.
#[derive(Clone, Debug)]
pub struct EventText {
    /// The JSON object.
    pub json: String,
    /// Where the uuid's text begins.
    pub uuid_at: usize,
    /// Where the timestamp's text begins.
    pub timestamp_at: usize,
}

/// The event at `index` of a batch, `bytes` long (but at least [`EVENT_BYTES_MIN`]).
///
/// `uuid` is its id's text; the timestamp's seconds are to be patched, its milliseconds stay.
#[must_use]
pub fn event(index: u32, uuid: &str, bytes: usize) -> EventText {
    let mut rng = StdRng::seed_from_u64(u64::from(index));
    let head = "{\"uuid\":\"";
    let middle = "\",\"timestamp\":\"";
    let timestamp_at = head.len() + uuid.len() + middle.len();
    let (fraction, name, user) = if bytes < 300 {
        (String::new(), "e", format!("{:03}", index % 1000))
    } else {
        (
            format!(".{:03}", rng.random_range(0..1000)),
            "$pageview",
            format!("user-{:08}", rng.random_range(0..50_000)),
        )
    };
    let mut json = format!("{head}{uuid}{middle}1970-01-01T00:00:00{fraction}Z");
    let _ = write!(
        json,
        "\",\"event\":\"{name}\",\"distinct_id\":\"{user}\",\"properties\":{{"
    );
    put_properties(&mut json, &mut rng, bytes.saturating_sub(2));
    json.push_str("}}");
    EventText {
        json,
        uuid_at: head.len(),
        timestamp_at,
    }
}

/// Appends properties until the text is exactly `until` bytes long.
fn put_properties(json: &mut String, rng: &mut StdRng, until: usize) {
    // `"t":""` is the least that can fill a gap.
    const FILLER_BYTES_MIN: usize = 6;
    for (key, value) in properties(rng) {
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
        // Too little room for any property: white space is JSON, too.
        json.extend(std::iter::repeat_n(' ', gap));
        return;
    }
    json.push_str("\"t\":\"");
    put_words(json, rng, gap - FILLER_BYTES_MIN);
    json.push('"');
}

/// All properties but the last, which fills what is left.
fn properties(rng: &mut StdRng) -> [(&'static str, String); PROPERTIES - 1] {
    let mut number = |below: u64| rng.random_range(0..below);
    let page = number(5000);
    [
        ("n", (10 + number(90)).to_string()),
        (
            "$current_url",
            format!("\"https:\\/\\/shop.example.com\\/products\\/{page:04}?ref=mail\""),
        ),
        ("$host", "\"shop.example.com\"".to_owned()),
        ("$pathname", format!("\"\\/products\\/{page:04}\"")),
        ("$browser", "\"Firefox\"".to_owned()),
        ("$browser_version", (100 + number(40)).to_string()),
        ("$os", "\"Mac OS X\"".to_owned()),
        ("$os_version", "\"10.15.7\"".to_owned()),
        ("$device_type", "\"Desktop\"".to_owned()),
        ("$screen_height", (700 + number(300)).to_string()),
        ("$screen_width", (1100 + number(900)).to_string()),
        ("$lib", "\"web\"".to_owned()),
        ("$lib_version", "\"1.398.0\"".to_owned()),
        ("$insert_id", format!("\"{:016x}\"", number(u64::MAX))),
        (
            "$session_id",
            format!("\"{:016x}{:016x}\"", number(u64::MAX), number(u64::MAX)),
        ),
        (
            "$time",
            format!("{}.{:03}", 1_790_000_000 + number(9_000_000), number(1000)),
        ),
        ("$is_identified", (number(2) == 1).to_string()),
        ("$referrer", "\"$direct\"".to_owned()),
        ("$timezone", "\"Europe\\/Berlin\"".to_owned()),
        ("city", "\"Köln – Ehrenfeld\"".to_owned()),
        ("price", format!("{}.{:02}", number(900), number(100))),
        ("tags", "[\"new\",\"sale\",null]".to_owned()),
        (
            "cart",
            format!("{{\"items\":{},\"currency\":\"EUR\"}}", number(9)),
        ),
        ("plan", "\"team\"".to_owned()),
    ]
}

/// Appends words of exactly `bytes` bytes in all.
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

    const UUID: &str = "1a2b3c4d-0102-8000-8003-040506070809";

    proptest! {
        #[test]
        fn an_event_is_json_of_the_length_asked_for(
            index in any::<u32>(),
            bytes in EVENT_BYTES_MIN..5000,
        ) {
            let event = event(index, UUID, bytes);
            prop_assert_eq!(event.json.len(), bytes, "{}", event.json);
            let value: Value = serde_json::from_str(&event.json).unwrap();
            prop_assert_eq!(value["uuid"].as_str(), Some(UUID));
            prop_assert_eq!(&event.json[event.uuid_at..][..UUID.len()], UUID);
            prop_assert!(event.json[event.timestamp_at..].starts_with("1970-01-01T00:00:00"));
        }
    }

    #[test]
    fn presets_have_the_documented_number_of_properties() {
        for (bytes, properties) in [(998, PROPERTIES), (136, 1), (10_000, PROPERTIES)] {
            for index in 0..1000 {
                let event = event(index, UUID, bytes);
                let value: Value = serde_json::from_str(&event.json).unwrap();
                assert_eq!(
                    value["properties"].as_object().unwrap().len(),
                    properties,
                    "{}",
                    event.json
                );
            }
        }
    }
}
