//! Moves the types inside of a body from its `$defs` to the document's schemas.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

const INSIDE: &str = "#/$defs/";
const BESIDE: &str = "#/components/schemas/";

/// Moves the `$defs` of a body into `all` and returns the body. A type of a request that differs
/// from the one of a response with the same name is renamed to `…Input`.
pub(super) fn lift(mut body: Value, all: &mut Map<String, Value>) -> Value {
    let definitions = body
        .as_object_mut()
        .and_then(|body| body.remove("$defs"))
        .and_then(|definitions| match definitions {
            Value::Object(definitions) => Some(definitions),
            _ => None,
        })
        .unwrap_or_default();
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for name in definitions.keys() {
        names.insert(name.clone(), name.clone());
    }
    // A new name changes the types that refer to it, so this repeats until nothing changes.
    loop {
        let differs = definitions.iter().find(|(name, definition)| {
            let published = names.get(*name).and_then(|name| all.get(name));
            names.get(*name) == Some(*name)
                && published.is_some_and(|it| *it != renamed((*definition).clone(), &names))
        });
        let Some((name, _)) = differs else { break };
        names.insert(name.clone(), format!("{name}Input"));
    }
    for (name, definition) in definitions {
        let published = names.get(&name).cloned().unwrap_or(name);
        all.insert(published, renamed(definition, &names));
    }
    renamed(body, &names)
}

/// Rewrites references to where the definitions are now.
fn renamed(mut schema: Value, names: &BTreeMap<String, String>) -> Value {
    match &mut schema {
        // Value of a `$ref`, or of a discriminator's mapping.
        Value::String(reference) => {
            let name = reference.strip_prefix(INSIDE);
            if let Some(name) = name.and_then(|name| names.get(name)) {
                *reference = format!("{BESIDE}{name}");
            }
        }
        Value::Object(fields) => {
            for field in fields.values_mut() {
                *field = renamed(field.take(), names);
            }
        }
        Value::Array(items) => {
            for item in items {
                *item = renamed(item.take(), names);
            }
        }
        _ => {}
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definitions(all: &Value) -> Map<String, Value> {
        all.as_object().unwrap().clone()
    }

    #[test]
    fn definitions_of_a_body_are_moved_to_the_documents_schemas() {
        let mut all = definitions(&json!({ "Same": { "type": "string" } }));
        let body = json!({
            "properties": { "a": { "$ref": "#/$defs/Same" }, "b": { "$ref": "#/$defs/New" } },
            "discriminator": { "propertyName": "type", "mapping": { "a": "#/$defs/Same" } },
            "$defs": { "Same": { "type": "string" }, "New": { "type": "integer" } },
        });
        let body = lift(body, &mut all);
        let expected = json!({
            "properties": {
                "a": { "$ref": "#/components/schemas/Same" },
                "b": { "$ref": "#/components/schemas/New" },
            },
            "discriminator": {
                "propertyName": "type", "mapping": { "a": "#/components/schemas/Same" },
            },
        });
        assert_eq!(body, expected);
        let expected = json!({ "Same": { "type": "string" }, "New": { "type": "integer" } });
        assert_eq!(Value::from(all), expected);
    }

    #[test]
    fn a_request_type_that_differs_from_its_response_type_is_renamed() {
        let mut all = definitions(&json!({
            "Inner": { "type": "string" },
            "Outer": { "items": { "$ref": "#/components/schemas/Inner" } },
        }));
        let body = json!({
            "$ref": "#/$defs/Outer",
            "$defs": {
                "Inner": { "type": "integer" },
                "Outer": { "items": { "$ref": "#/$defs/Inner" } },
            },
        });
        let body = lift(body, &mut all);
        assert_eq!(body, json!({ "$ref": "#/components/schemas/OuterInput" }));
        assert_eq!(all["Inner"], json!({ "type": "string" }));
        assert_eq!(all["InnerInput"], json!({ "type": "integer" }));
        let expected = json!({ "items": { "$ref": "#/components/schemas/InnerInput" } });
        assert_eq!(all["OuterInput"], expected);
    }
}
