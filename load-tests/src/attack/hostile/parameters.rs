//! Texts that a terminal would interpret, as the value and in the name of every query parameter.
//!
//! Parameters that are unknown or invalid are ignored, so a success is no violation: an error of
//! the server is one, and a response that repeats the text as it was sent.

use super::context::{AttackContext, HOSTILE_TEXT};
use super::ids::Ids;
use super::operations::{document, operations};
use super::sample::sample;
use crate::attack::findings::Findings;
use crate::attack::http::Outcome;
use crate::attack::outputs::is_hostile;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::Value;
use std::sync::Arc;
use tokio::time::sleep;

/// Name of the attempts in a report.
const ATTEMPTS: &str = "hostile texts in query parameters";
/// Highest depth to which schemas are followed.
const DEPTH_MAX: u8 = 8;
/// Fields of errors and of pages that may repeat a query.
const ECHOES: [&str; 4] = ["detail", "attr", "next", "previous"];

/// A query with the hostile text in one parameter.
#[derive(Debug, PartialEq)]
struct Attempt {
    method: String,
    /// Path template of the operation.
    path: String,
    parameter: String,
    /// Query as it is sent, behind the question mark.
    query: String,
}

/// Sends the queries in turn, from a random one on.
pub(super) async fn all(context: Arc<AttackContext>, mut rng: StdRng) {
    let attempts = attempts(&document(&context).await);
    if attempts.is_empty() {
        let wrong = "no operation of the API's document has a query parameter";
        context.findings.wrong(wrong.to_owned());
    }
    let mut ids = Ids::default();
    let hostile = &context.tenants.hostile;
    let first = rng.random_range(0..attempts.len().max(1));
    for attempt in attempts.iter().cycle().skip(first) {
        let filled = ids.fill(&attempt.path, hostile, hostile, &mut rng).await;
        let path = format!("{}?{}", filled.path, attempt.query);
        let outcome = hostile.ask_at(&attempt.method, &path, &Value::Null).await;
        judge(&context.findings, attempt, &outcome);
        sleep(context.pause * 2).await;
    }
}

/// Records an outcome: an error of the server is a violation, and so is a response that repeats the
/// text.
fn judge(findings: &Findings, attempt: &Attempt, outcome: &Outcome) {
    findings.note(ATTEMPTS, outcome);
    let answer = outcome.json();
    for field in ECHOES {
        let told = answer.get(field).and_then(Value::as_str);
        if told.is_some_and(|told| told.contains(is_hostile)) {
            let Attempt { method, path, .. } = attempt;
            let parameter = attempt.parameter.as_str();
            let repeats = "repeats a hostile text of the parameter";
            findings.wrong(format!("{method} {path} {repeats} {parameter} as {field}"));
        }
    }
}

/// Attempts for all operations of the document.
fn attempts(document: &Value) -> Vec<Attempt> {
    let schemas = document.pointer("/components/schemas");
    let schemas = schemas.unwrap_or(&Value::Null);
    let mut attempts = Vec::new();
    for operation in operations(document) {
        for (parameter, schema) in &operation.parameters {
            let valid = match sample(schemas, schema, DEPTH_MAX) {
                Value::String(text) => text,
                other => other.to_string(),
            };
            for (name, value) in [
                (parameter.clone(), HOSTILE_TEXT.to_owned()),
                (format!("{parameter}{HOSTILE_TEXT}"), valid),
            ] {
                let mut query = form_urlencoded::Serializer::new(String::new());
                query.append_pair(&name, &value);
                attempts.push(Attempt {
                    method: operation.method.clone(),
                    path: operation.path.clone(),
                    parameter: parameter.clone(),
                    query: query.finish(),
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
        let is_plain = |it: &Attempt| it.query.bytes().all(|byte| byte.is_ascii_graphic());
        assert!(attempts.iter().all(is_plain));
        assert!(attempts.iter().all(|it| it.method == "GET"));
    }

    #[test]
    fn a_response_that_repeats_the_text_is_a_violation() {
        let attempt = Attempt {
            method: "GET".to_owned(),
            path: "/a/".to_owned(),
            parameter: "search".to_owned(),
            query: String::new(),
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
            judge(&findings, &attempt, &outcome);
            assert_eq!(findings.wrongs().count, wrongs, "{status} {body}");
        }
    }
}
