//! Texts that a terminal would interpret, as the value and in the name of every query parameter.
//!
//! Parameters that are unknown or invalid are ignored, so a success is no violation: an error of
//! the server is one, and a response that repeats the text as it was sent.

use super::context::AttackContext;
use super::operations::{document, operations, schemas_of};
use super::sample::{SAMPLE_DEPTH_MAX, sample};
use super::text_attempts::{TextAttempt, make_all};
use crate::attack::findings::Findings;
use crate::attack::hostile_text::{HOSTILE_TEXT, is_hostile};
use crate::attack::http::Outcome;
use rand::rngs::StdRng;
use serde_json::Value;
use std::sync::Arc;

/// Name of the attempts in a report.
const ATTEMPTS: &str = "hostile texts in query parameters";
/// Fields of errors and of pages that may repeat a query.
const ECHOES: [&str; 4] = ["detail", "attr", "next", "previous"];

/// Sends the queries in turn.
pub(super) async fn all(context: Arc<AttackContext>, rng: StdRng) {
    let attempts = attempts(&document(&context).await);
    if attempts.is_empty() {
        let wrong = "no operation of the API's document has a query parameter";
        context.findings.wrong(wrong.to_owned());
    }
    make_all(
        &context,
        "query parameters of the document",
        &attempts,
        check_response,
        rng,
    )
    .await;
}

/// Records an outcome: an error of the server is a violation, and so is a response that repeats the
/// text.
fn check_response(findings: &Findings, attempt: &TextAttempt, outcome: &Outcome) {
    findings.note(ATTEMPTS, outcome);
    let answer = outcome.json();
    for field in ECHOES {
        let told = answer.get(field).and_then(Value::as_str);
        if told.is_some_and(|told| told.contains(is_hostile)) {
            let TextAttempt { method, path, .. } = attempt;
            let parameter = attempt.place.as_str();
            let repeats = "repeats a hostile text of the parameter";
            findings.wrong(format!("{method} {path} {repeats} {parameter} as {field}"));
        }
    }
}

/// Attempts for all operations of the document.
fn attempts(document: &Value) -> Vec<TextAttempt> {
    let schemas = schemas_of(document);
    let mut attempts = Vec::new();
    let all = operations(document);
    for operation in all.iter().filter(|operation| !operation.is_spared()) {
        for (parameter, schema) in &operation.parameters {
            let valid = match sample(schemas, schema, SAMPLE_DEPTH_MAX) {
                Value::String(text) => text,
                other => other.to_string(),
            };
            for (name, value) in [
                (parameter.clone(), HOSTILE_TEXT.to_owned()),
                (format!("{parameter}{HOSTILE_TEXT}"), valid),
            ] {
                let mut query = form_urlencoded::Serializer::new(String::new());
                query.append_pair(&name, &value);
                attempts.push(TextAttempt {
                    method: operation.method.clone(),
                    path: operation.path.clone(),
                    query: query.finish(),
                    body: Value::Null,
                    place: parameter.clone(),
                });
            }
        }
    }
    attempts
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_query_parameter_is_tried_with_a_hostile_value_and_a_hostile_name() {
        let document = json!({
            "paths": {"/a/": {
                "get": {"parameters": [
                    {"$ref": "#/components/parameters/Limit"},
                    {"in": "query", "name": "search", "schema": {"type": "string"}},
                    {"in": "header", "name": "If-Match", "schema": {"type": "string"}},
                ]},
                "post": {},
            }},
            "components": {"parameters": {
                "Limit": {"in": "query", "name": "limit", "schema": {"type": "integer"}},
            }},
        });
        let attempts = attempts(&document);
        let tried: Vec<Vec<(String, String)>> = attempts
            .iter()
            .map(|it| {
                form_urlencoded::parse(it.query.as_bytes())
                    .into_owned()
                    .collect()
            })
            .collect();
        let pair = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let expected = [
            pair("limit", HOSTILE_TEXT),
            pair(&format!("limit{HOSTILE_TEXT}"), "1"),
            pair("search", HOSTILE_TEXT),
            pair(&format!("search{HOSTILE_TEXT}"), "fields"),
        ];
        assert_eq!(tried, expected);
        let is_plain = |it: &TextAttempt| it.query.bytes().all(|byte| byte.is_ascii_graphic());
        assert!(attempts.iter().all(is_plain));
        assert!(attempts.iter().all(|it| it.method == "GET"));
    }

    #[test]
    fn a_response_that_repeats_the_text_is_a_violation() {
        let attempt = TextAttempt {
            method: "GET".to_owned(),
            path: "/a/".to_owned(),
            query: String::new(),
            body: Value::Null,
            place: "search".to_owned(),
        };
        for (status, body, wrongs) in [
            (200, json!({"results": [], "next": null}), 0),
            (200, json!({"next": "http://a/?search=evil%1B"}), 0),
            (404, json!({"detail": "Not found."}), 0),
            (200, json!({"next": HOSTILE_TEXT}), 1),
            (400, json!({"attr": "search", "detail": HOSTILE_TEXT}), 1),
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
