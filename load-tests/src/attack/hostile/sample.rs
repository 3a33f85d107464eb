//! Plain values of the API's schemas: the least that each accepts.

use serde_json::{Map, Value, json};

/// Depth to which the callers of [`sample`] follow schemas.
pub(super) const SAMPLE_DEPTH_MAX: u8 = 8;

/// Schema that a reference names, or the schema itself.
pub(super) fn resolved<'a>(schemas: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema.get("$ref").and_then(Value::as_str);
    let name = reference.and_then(|it| it.rsplit('/').next());
    name.and_then(|name| schemas.get(name)).unwrap_or(schema)
}

/// Schemas of which a value fits one.
pub(super) fn choices<'a>(schemas: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let words = ["anyOf", "oneOf"].into_iter();
    let lists = words.filter_map(|word| schema.get(word)?.as_array());
    lists.flatten().map(|it| resolved(schemas, it)).collect()
}

/// Names and schemas of an object's fields.
pub(super) fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let fields = schema.get("properties").and_then(Value::as_object);
    fields.into_iter().flatten()
}

/// First type of a schema that is not null.
pub(super) fn kind(schema: &Value) -> Option<&str> {
    match schema.get("type")? {
        Value::String(kind) => Some(kind.as_str()),
        Value::Array(kinds) => kinds
            .iter()
            .filter_map(Value::as_str)
            .find(|it| *it != "null"),
        _ => None,
    }
}

/// Returns true for a text.
pub(super) fn is_text(schema: &Value) -> bool {
    kind(schema) == Some("string")
}

/// An example of a schema, or the least that it accepts, without optional fields.
pub(super) fn sample(schemas: &Value, schema: &Value, depth: u8) -> Value {
    let schema = resolved(schemas, schema);
    let pointers = ["/examples/0", "/example", "/const", "/enum/0", "/default"];
    let given = pointers.into_iter().find_map(|it| schema.pointer(it));
    if let Some(given) = given {
        return given.clone();
    }
    let Some(depth) = depth.checked_sub(1) else {
        return Value::Null;
    };
    let choices = choices(schemas, schema);
    if let Some(choice) = choices.iter().find(|it| kind(it) != Some("null")) {
        return sample(schemas, choice, depth);
    }
    match kind(schema) {
        Some("string") => json!(text_of(schema)),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(false),
        Some("array") => json!([]),
        Some("object") => object(schemas, schema, depth),
        None if schema.get("properties").is_some() => object(schemas, schema, depth),
        _ => Value::Null,
    }
}

fn object(schemas: &Value, schema: &Value, depth: u8) -> Value {
    let required = schema.get("required").and_then(Value::as_array);
    let required = required.into_iter().flatten().filter_map(Value::as_str);
    let fields = required.map(|name| {
        let of = schema.get("properties").and_then(|it| it.get(name));
        let value = sample(schemas, of.unwrap_or(&Value::Null), depth);
        (name.to_owned(), value)
    });
    Value::Object(fields.collect::<Map<_, _>>())
}

/// A text of a schema's format.
fn text_of(schema: &Value) -> &'static str {
    match schema.get("format").and_then(Value::as_str) {
        Some("date-time") => "2026-01-01T00:00:00Z",
        Some("uuid") => "00000000-0000-4000-8000-000000000000",
        Some("email") => "fields@example.com",
        _ => "fields",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_an_example_or_the_least_that_a_schema_accepts() {
        let schemas = json!({"A": {"type": "object", "required": ["at", "of"], "properties": {
            "at": {"type": "string", "format": "date-time"},
            "of": {"anyOf": [{"type": "null"}, {"type": "array"}]},
            "more": {"type": "string"},
        }}});
        for (schema, expected) in [
            (
                json!({"$ref": "#/components/schemas/A"}),
                json!({"at": "2026-01-01T00:00:00Z", "of": []}),
            ),
            (json!({"type": "integer", "minimum": 7}), json!(7)),
            (json!({"type": ["null", "boolean"]}), json!(false)),
            (json!({"enum": ["x", "y"], "type": "string"}), json!("x")),
            (
                json!({"type": "object", "examples": [{"a": 1}]}),
                json!({"a": 1}),
            ),
            (json!({}), Value::Null),
        ] {
            assert_eq!(sample(&schemas, &schema, 5), expected, "{schema}");
        }
    }
}
