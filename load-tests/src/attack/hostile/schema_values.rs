//! Random values for the API's schemas; some violate their schema.

use super::sample::resolved;
use crate::attack::hostile_text::HOSTILE_TEXT;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// Highest depth to which schemas are followed.
pub(super) const DEPTH_MAX: u8 = 6;
/// Private key of serde_json: in an object with this key alone, the string is parsed as JSON
/// (`RawValue`).
const MARKER: &str = "$serde_json::private::RawValue";

/// Random value for a schema; sometimes it, or a part of it, violates the schema.
pub(super) fn random_value(schemas: &Value, schema: &Value, depth: u8, rng: &mut StdRng) -> Value {
    if depth == 0 || rng.random_ratio(1, 12) {
        return odd(rng);
    }
    let named = resolved(schemas, schema);
    if !std::ptr::eq(named, schema) {
        return random_value(schemas, named, depth - 1, rng);
    }
    for word in ["anyOf", "oneOf", "allOf", "enum"] {
        if let Some(choices) = schema.get(word).and_then(Value::as_array) {
            let at = rng.random_range(0..choices.len().max(1));
            let chosen = choices.get(at).unwrap_or(&Value::Null);
            return if word == "enum" {
                chosen.clone()
            } else {
                random_value(schemas, chosen, depth - 1, rng)
            };
        }
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let some = properties
            .iter()
            .filter(|_| rng.random_ratio(3, 4))
            .collect::<Vec<_>>();
        let fields = some.into_iter();
        let fields =
            fields.map(|(name, of)| (name.clone(), random_value(schemas, of, depth - 1, rng)));
        return Value::Object(fields.collect::<Map<_, _>>());
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("integer" | "number") => json!(rng.random_range(-2..30)),
        Some("boolean") => json!(rng.random::<bool>()),
        Some("array") => {
            let items = schema.get("items").unwrap_or(&Value::Null);
            let count = rng.random_range(0..4);
            (0..count)
                .map(|_| random_value(schemas, items, depth - 1, rng))
                .collect()
        }
        Some("string") => json!(format!("made up {}", rng.random::<u16>())),
        _ => odd(rng),
    }
}

/// JSON nested 12 000 levels deep in 100 layers. Each layer has 121 levels, and the next one is
/// escaped in a string below a marker, so depth limits per text do not apply. A parser that follows
/// the markers overflows its stack. Short enough for many requests.
static NESTED_MARKERS: LazyLock<String> = LazyLock::new(|| {
    let (open, close) = ("[".repeat(120), "]".repeat(120));
    let mut text = "0".to_owned();
    for _ in 0..100 {
        let escaped = text.replace('\\', "\\u005c").replace('"', "\\u0022");
        text = format!("{open}{{\"{MARKER}\":\"{escaped}\"}}{close}");
    }
    text
});

/// A value that few programs expect.
pub(super) fn odd(rng: &mut StdRng) -> Value {
    match rng.random_range(0..10) {
        0 => Value::Null,
        1 => json!(""),
        2 => json!(HOSTILE_TEXT),
        3 => json!("x".repeat(rng.random_range(0..100_000))),
        4 => json!([[[[[[[[]]]]]]]]),
        5 => json!(i64::MIN),
        6 => json!({"": {"": {"": 1e308}}}),
        7 => json!({ MARKER: NESTED_MARKERS.as_str() }),
        // For fields whose text is JSON.
        8 => json!(NESTED_MARKERS.as_str()),
        _ => json!("9999-12-31T23:59:60Z"),
    }
}
