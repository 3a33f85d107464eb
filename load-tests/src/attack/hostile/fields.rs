//! Texts that a terminal would interpret, in every text field of every operation's body.
//!
//! The API's document says which fields refuse them: those with the pattern against control
//! characters or with a format. The body around a field is made from its schema, so a field of a
//! new operation is tried as soon as it is documented.

use super::context::AttackContext;
use super::operations::{document, schemas_of};
use super::sample::{SAMPLE_DEPTH_MAX, choices, is_text, kind, properties, resolved, sample};
use super::text_attempts::{TextAttempt, make_all};
use crate::attack::findings::Findings;
use crate::attack::hostile_text::{HOSTILE_TEXT, is_hostile};
use crate::attack::http::Outcome;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::sync::Arc;

/// Name of the attempts in a report.
const ATTEMPTS: &str = "hostile texts in every field";
/// Part of the pattern that refuses control characters.
const CONTROLS: &str = r"\u007f-\u009f";
/// Formats that no text with control characters has.
const STRICT_FORMATS: [&str; 3] = ["date-time", "uuid", "email"];

/// Sends the bodies in turn; each must be refused.
pub(super) async fn all(context: Arc<AttackContext>, rng: StdRng) {
    let attempts = attempts(&document(&context).await);
    if attempts.is_empty() {
        let wrong = "no field of the API's document refuses control characters";
        context.findings.wrong(wrong.to_owned());
    }
    make_all(
        &context,
        "fields of the document",
        &attempts,
        check_response,
        rng,
    )
    .await;
}

/// Records an outcome: a success is a violation, and so is a refusal that repeats the text.
fn check_response(findings: &Findings, attempt: &TextAttempt, outcome: &Outcome) {
    let TextAttempt { method, path, .. } = attempt;
    let field = attempt.place.as_str();
    findings.note(ATTEMPTS, outcome);
    if (200..300).contains(&outcome.status()) {
        findings.wrong(format!("{method} {path} accepts a hostile text as {field}"));
    }
    let answer = outcome.json();
    let told = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default();
    if told("detail").contains(is_hostile) {
        findings.wrong(format!("{method} {path} repeats a hostile text of {field}"));
    }
    if outcome.status() == 400 {
        let refused = if told("attr") == field {
            "for the text"
        } else {
            "for another field"
        };
        findings.count("hostile texts refused", refused);
    }
}

/// Attempts for all operations of the document.
fn attempts(document: &Value) -> Vec<TextAttempt> {
    let schemas = schemas_of(document);
    let paths = document.pointer("/paths").and_then(Value::as_object);
    let mut attempts = Vec::new();
    for (path, methods) in paths.into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let body = operation.pointer("/requestBody/content/application~1json/schema");
            let Some(body) = body else {
                continue;
            };
            for (field, body) in hostile_values(schemas, body, SAMPLE_DEPTH_MAX) {
                attempts.push(TextAttempt {
                    method: method.to_uppercase(),
                    path: path.clone(),
                    query: String::new(),
                    body,
                    place: field.join("__"),
                });
            }
        }
    }
    attempts
}

/// Values of a schema with the hostile text in one place, each with the path to it.
fn hostile_values(schemas: &Value, schema: &Value, depth: u8) -> Vec<(Vec<String>, Value)> {
    let Some(depth) = depth.checked_sub(1) else {
        return Vec::new();
    };
    let schema = resolved(schemas, schema);
    if refuses(schema) {
        return vec![(Vec::new(), json!(HOSTILE_TEXT))];
    }
    let below = |name: &str, mut path: Vec<String>| {
        path.insert(0, name.to_owned());
        path
    };
    let mut found = Vec::new();
    let choices = choices(schemas, schema);
    let is_open = choices.iter().any(|choice| is_open(choice));
    for choice in choices {
        if !(is_open && is_text(choice)) {
            found.extend(hostile_values(schemas, choice, depth));
        }
    }
    if let Some(items) = schema.get("items") {
        let items = hostile_values(schemas, items, depth).into_iter();
        found.extend(items.map(|(path, value)| (below("0", path), json!([value]))));
    }
    for (name, of) in properties(schema) {
        for (path, value) in hostile_values(schemas, of, depth) {
            let mut whole = sample(schemas, schema, SAMPLE_DEPTH_MAX);
            if let Some(fields) = whole.as_object_mut() {
                fields.insert(name.clone(), value);
                found.push((below(name, path), whole));
            }
        }
    }
    found
}

/// Returns true for a text that may not hold control characters.
fn refuses(schema: &Value) -> bool {
    let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
    let is_refusing =
        text("pattern").contains(CONTROLS) || STRICT_FORMATS.contains(&text("format"));
    is_text(schema) && !is_closed(schema) && is_refusing
}

/// Returns true for a schema that a text with control characters fits, as far as it says.
fn is_open(schema: &Value) -> bool {
    let is_any = kind(schema).is_none() && choices(&Value::Null, schema).is_empty();
    (is_any || is_text(schema)) && !is_closed(schema) && !refuses(schema)
}

/// Returns true for a schema that lists its values.
fn is_closed(schema: &Value) -> bool {
    schema.get("enum").or(schema.get("const")).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = r"^[^\u0000-\u001f\u007f-\u009f]*$";

    #[test]
    fn each_text_that_refuses_controls_is_tried_in_a_body_of_its_schema() {
        let document = json!({
            "paths": {"/a/{id}/": {"get": {}, "patch": {"requestBody": {"content":
                {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}}}}},
            "components": {"schemas": {
                "A": {
                    "type": "object", "required": ["name", "size"],
                    "properties": {
                        "name": {"type": "string", "pattern": PLAIN},
                        "size": {"type": "integer", "minimum": 3},
                        "tags": {"type": "array", "items": {"type": ["string", "null"], "pattern": PLAIN}},
                        "to": {"oneOf": [{"$ref": "#/components/schemas/B"}, {"type": "null"}]},
                        "query": {"type": "string"},
                        "level": {"enum": ["a", "b"], "type": "string"},
                        "either": {"anyOf": [{"type": "string", "pattern": PLAIN}, {"type": "string"}]},
                        "config": {},
                    },
                },
                "B": {
                    "examples": [{"type": "B", "url": "u"}],
                    "properties": {"type": {"const": "B"}, "url": {"type": "string", "pattern": PLAIN}},
                },
            }},
        });
        let attempts = attempts(&document);
        let made: Vec<_> = attempts
            .iter()
            .map(|it| (it.place.as_str(), it.body.clone()))
            .collect();
        let expected = [
            ("name", json!({"name": HOSTILE_TEXT, "size": 3})),
            (
                "tags__0",
                json!({"name": "fields", "size": 3, "tags": [HOSTILE_TEXT]}),
            ),
            (
                "to__url",
                json!({"name": "fields", "size": 3, "to": {"type": "B", "url": HOSTILE_TEXT}}),
            ),
        ];
        assert_eq!(made, expected);
        assert!(attempts.iter().all(|it| it.method == "PATCH"));
    }

    #[test]
    fn an_accepted_or_repeated_text_is_a_violation() {
        let attempt = TextAttempt {
            method: "POST".to_owned(),
            path: "/a/".to_owned(),
            query: String::new(),
            body: Value::Null,
            place: "name".to_owned(),
        };
        for (status, body, wrongs) in [
            (
                400,
                json!({"attr": "name", "detail": "This holds U+001B."}),
                0,
            ),
            (400, json!({"attr": "size", "detail": "Required."}), 0),
            (404, json!({"detail": "Not found."}), 0),
            (400, json!({"attr": "name", "detail": HOSTILE_TEXT}), 1),
            (201, json!({}), 1),
            (500, json!({}), 1),
        ] {
            let findings = Findings::default();
            let outcome = Outcome::Response {
                status,
                body: body.to_string(),
            };
            check_response(&findings, &attempt, &outcome);
            assert_eq!(findings.wrongs().count, wrongs, "{status} {body}");
        }
    }
}
