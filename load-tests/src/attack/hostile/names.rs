//! Texts that a terminal would interpret, in each field that any output shows.
//!
//! Fields of destinations come from the API's document, so that new ones are tried as soon as they
//! are documented. Fields of domains and other records are listed here.

use super::context::AttackContext;
use super::operations::{document, schemas_of};
use crate::attack::hostile_text::HOSTILE_TEXT;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::sleep;

/// Sends the bodies in turn; each must be refused.
pub(super) async fn all(context: Arc<AttackContext>) {
    let document = document(&context).await;
    let mut bodies = destinations(schemas_of(&document));
    if bodies.is_empty() {
        let wrong = "the API's document has no destinations";
        context.findings.wrong(wrong.to_owned());
    }
    bodies.extend(others());
    loop {
        for (what, path, body) in &bodies {
            let refused = context.tenants.hostile.ask("POST", path, body).await;
            context.findings.note_among(what, &refused, &[400]);
            sleep(context.pause * 2).await;
        }
    }
}

/// Name of an attempt, its path below the organization's, and its body.
type Hostile = (&'static str, &'static str, Value);

/// An export per destination type and displayed text field: a complete example with a hostile text
/// in that field.
fn destinations(schemas: &Value) -> Vec<Hostile> {
    let mut bodies = Vec::new();
    for schema in schemas.as_object().into_iter().flat_map(|all| all.values()) {
        let Some(example) = schema.pointer("/examples/0") else {
            continue;
        };
        let reference = schema.pointer("/properties/config/$ref");
        let name = reference.and_then(Value::as_str).unwrap_or_default();
        let name = name.rsplit('/').next().unwrap_or_default();
        let fields = schemas.get(name).and_then(|it| it.get("properties"));
        let fields = fields.and_then(Value::as_object).into_iter().flatten();
        for (field, _) in fields.filter(|(_, of)| is_shown_text(of)) {
            let mut destination = example.clone();
            let config = destination.pointer_mut("/config");
            if let Some(config) = config.and_then(Value::as_object_mut) {
                config.insert(field.clone(), json!(HOSTILE_TEXT));
            }
            let body = json!({"name": "Names", "interval": "day", "paused": true, "destination": destination});
            bodies.push(("hostile texts in destinations", "batch_exports/", body));
        }
    }
    bodies
}

/// Returns true for a text that is displayed; secrets never are.
fn is_shown_text(schema: &Value) -> bool {
    let is_secret = schema.get("writeOnly") == Some(&Value::Bool(true));
    let is_text = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.contains(&json!("string")),
        kind => kind == Some(&json!("string")),
    };
    is_text && !is_secret
}

/// Hostile texts in fields of other records.
fn others() -> Vec<Hostile> {
    let table = [
        (
            "domains/",
            json!({"domain": "names.example.com"}),
            &["saml_entity_id", "saml_acs_url", "saml_x509_cert"][..],
        ),
        (
            "invites/",
            json!({"target_email": "names@example.com", "send_email": false}),
            &["first_name", "message"],
        ),
        (
            "historical_migrations/",
            json!({"source": "s", "method": "m", "total_events": 1, "events_per_minute": 1}),
            &["source", "method"],
        ),
        (
            "plugins/",
            json!({"plugin_type": "source", "name": "P"}),
            &["name", "url"],
        ),
    ];
    let mut bodies = Vec::new();
    for (path, body, fields) in table {
        for field in fields {
            let mut named = body.clone();
            if let Some(named) = named.as_object_mut() {
                named.insert((*field).to_owned(), json!(HOSTILE_TEXT));
            }
            bodies.push(("hostile texts in names", path, named));
        }
    }
    bodies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_displayed_text_of_a_destination_is_tried_in_a_complete_example() {
        let schemas = json!({
            "NewADestination": {
                "examples": [{"type": "A", "config": {"bucket": "b", "key": "k"}}],
                "properties": {"type": {"const": "A"}, "config": {"$ref": "#/components/schemas/AConfig"}},
            },
            "AConfig": {"properties": {
                "bucket": {"type": "string"},
                "prefix": {"type": ["string", "null"]},
                "key": {"type": "string", "writeOnly": true},
                "events": {"type": "array", "items": {"type": "string"}},
                "port": {"type": "integer"},
            }},
            "Other": {"properties": {"name": {"type": "string"}}},
        });
        let bodies = destinations(&schemas);
        let configs: Vec<&Value> = bodies
            .iter()
            .map(|(_, _, it)| &it["destination"]["config"])
            .collect();
        let expected = [
            json!({"bucket": HOSTILE_TEXT, "key": "k"}),
            json!({"bucket": "b", "key": "k", "prefix": HOSTILE_TEXT}),
        ];
        assert_eq!(configs, expected.iter().collect::<Vec<_>>());
    }
}
