//! Types of fields, in a few words, and where the page shows more of them.

use super::lookup::{items, referenced, resolved};
use serde_json::Value;

/// Type of a field, in a few words.
pub(super) fn kind(document: &Value, schema: &Value) -> String {
    let (named, schema) = (referenced(schema), resolved(document, schema));
    if has_variants(document, schema) {
        return "object, by its type".to_owned();
    }
    if let Some(name) = named.filter(|_| schema.get("properties").is_some()) {
        return name.to_owned();
    }
    let alternatives: Vec<String> = ["/anyOf", "/oneOf"]
        .iter()
        .flat_map(|place| items(schema, place).map(|one| kind(document, one)))
        .collect();
    if !alternatives.is_empty() {
        return alternatives.join(" or ");
    }
    let choices: Vec<String> = items(schema, "/enum")
        .chain(schema.get("const"))
        .map(Value::to_string)
        .collect();
    if !choices.is_empty() {
        return choices.join(", ");
    }
    let name = |word: &str| match (word, schema.get("items")) {
        ("array", Some(item)) => format!("list of {}", kind(document, item)),
        (word, _) => word.to_owned(),
    };
    let types = match schema.get("type") {
        Some(Value::Array(types)) => {
            let types = types.iter().filter_map(Value::as_str).map(name);
            types.collect::<Vec<_>>().join(" or ")
        }
        Some(one) => name(one.as_str().unwrap_or_default()),
        None => "any JSON".to_owned(),
    };
    types + &limits(schema)
}

/// Limits of a value, in a few words.
fn limits(schema: &Value) -> String {
    let limits = [
        ("format", ""),
        ("maxLength", "at most "),
        ("minimum", "from "),
        ("maximum", "to "),
    ];
    let limits = limits.iter().filter_map(|(name, word)| {
        let limit = schema.get(name)?;
        let is_machine = matches!(
            limit.as_str(),
            Some("int16" | "int32" | "int64" | "uint32" | "uint64")
        );
        let is_range = limit
            .as_f64()
            .is_some_and(|limit| limit.abs() > f64::from(u32::MAX));
        let limit = limit
            .as_str()
            .map_or_else(|| limit.to_string(), str::to_owned);
        (!is_machine && !is_range).then(|| format!(", {word}{limit}"))
    });
    limits.collect()
}

/// Returns true for a type whose alternatives are all objects.
pub(super) fn has_variants(document: &Value, schema: &Value) -> bool {
    let mut alternatives = items(schema, "/oneOf").peekable();
    alternatives.peek().is_some()
        && alternatives.all(|one| kind(document, resolved(document, one)) == "object")
}

/// Anchor of the object that a field has, alone, in a list, or beside null; `None` for other fields.
pub(super) fn anchor(document: &Value, schema: &Value) -> Option<String> {
    let inner = schema.get("items").into_iter();
    let inner = inner.chain(items(schema, "/anyOf"));
    std::iter::once(schema)
        .chain(inner)
        .find_map(|schema| named(document, schema))
}

/// Name of the object that a `$ref` leads to. The variants of a type are shown once, as those of
/// a new resource: they have all fields, and examples.
fn named(document: &Value, schema: &Value) -> Option<String> {
    let (name, schema) = (referenced(schema)?, resolved(document, schema));
    if has_variants(document, schema) {
        let bare = name.strip_prefix("Patch").unwrap_or(name);
        let new = format!("New{bare}");
        let is_there = document.pointer(&format!("/components/schemas/{new}"));
        return Some(is_there.map_or(name.to_owned(), |_| new));
    }
    let has_fields = schema.get("properties").is_some();
    has_fields.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document() -> Value {
        let thing = |name: &str| json!({ "type": "object", "properties": { name: {} } });
        json!({ "components": { "schemas": {
            "Role": thing("user"),
            "User": thing("name"),
            "NewTarget": { "oneOf": [thing("a"), thing("b")] },
            "PatchTarget": { "oneOf": [thing("a"), thing("b")] },
        } } })
    }

    #[test]
    fn a_field_leads_to_the_type_that_it_has() {
        let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
        let table = [
            (reference("Role"), Some("Role")),
            (json!({ "items": reference("User") }), Some("User")),
            (
                json!({ "anyOf": [reference("User"), { "type": "null" }] }),
                Some("User"),
            ),
            (reference("PatchTarget"), Some("NewTarget")),
            (json!({ "type": "string" }), None),
        ];
        for (schema, expected) in table {
            assert_eq!(
                anchor(&document(), &schema).as_deref(),
                expected,
                "{schema}"
            );
        }
    }

    #[test]
    fn the_type_of_a_field_is_told_in_a_few_words() {
        let user = json!({ "$ref": "#/components/schemas/User" });
        let table = [
            (json!({}), "any JSON"),
            (json!({ "type": ["string", "null"] }), "string or null"),
            (json!({ "type": "array", "items": user }), "list of User"),
            (
                json!({ "anyOf": [user, { "type": "null" }] }),
                "User or null",
            ),
            (json!({ "enum": ["a", "b"] }), r#""a", "b""#),
            (
                json!({ "$ref": "#/components/schemas/PatchTarget" }),
                "object, by its type",
            ),
            (
                json!({ "type": "integer", "format": "int64", "minimum": 1, "maximum": 9 }),
                "integer, from 1, to 9",
            ),
        ];
        for (schema, expected) in table {
            assert_eq!(kind(&document(), &schema), expected, "{schema}");
        }
    }
}
