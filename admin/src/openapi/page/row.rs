//! One operation on the page: its parameters, body and answer, with an example of each.

use super::curl;
use super::fields::{self, Field};
use super::lookup::{entries, items, resolved, text};
use super::markdown;
use super::types;
use http::StatusCode;
use serde_json::Value;

/// One operation.
pub(super) struct Row {
    pub(super) id: String,
    pub(super) method: String,
    pub(super) path: String,
    /// Other paths of the same operation.
    pub(super) others: Vec<String>,
    pub(super) summary: String,
    /// Description as HTML.
    pub(super) description: String,
    /// Scopes of which the key needs one.
    pub(super) scopes: Vec<String>,
    pub(super) parameters: Vec<Field>,
    /// Words before the fields of the body; empty if the body has them itself.
    pub(super) body_note: String,
    pub(super) body: Vec<Field>,
    /// Words before the fields of the answer; empty if the answer has them itself.
    pub(super) answer_note: String,
    pub(super) answer: Vec<Field>,
    pub(super) statuses: Vec<StatusRow>,
    /// Limits on the body, and on what all requests of somebody create or hold.
    pub(super) limits: Vec<String>,
    /// Command that makes the request.
    pub(super) curl: String,
    /// Example of a body; empty if there is none.
    pub(super) request: String,
    /// Status of success with its name.
    pub(super) success: String,
    /// Example of an answer; empty if there is none.
    pub(super) response: String,
}

/// A status that an operation answers with.
pub(super) struct StatusRow {
    pub(super) status: String,
    /// Description as HTML.
    pub(super) description: String,
}

impl Row {
    /// Describes an operation of the document.
    pub(super) fn of(document: &Value, path: &str, method: &str, operation: &Value) -> Self {
        let sent = operation.pointer("/requestBody/content/application~1json");
        let (success, answered) = success(operation);
        let (body_note, body) = object(document, sent);
        let (answer_note, answer) = object(document, answered);
        let request = sent.and_then(|sent| sent.get("example"));
        let response = answered.and_then(|answered| answered.get("example"));
        let statuses = entries(operation, "/responses").map(|(status, response)| StatusRow {
            status: status.clone(),
            description: markdown::inline(&text(resolved(document, response), "/description")),
        });
        Self {
            id: text(operation, "/operationId"),
            method: method.to_ascii_uppercase(),
            path: path.to_owned(),
            others: Vec::new(),
            summary: text(operation, "/summary"),
            description: markdown::blocks(&text(operation, "/description")),
            scopes: scopes(operation),
            parameters: parameters(document, operation),
            body_note,
            body,
            answer_note,
            answer,
            statuses: statuses.collect(),
            limits: limits(operation),
            curl: curl::command(document, path, method, operation),
            request: request.map(shown).unwrap_or_default(),
            success,
            response: response.map(shown).unwrap_or_default(),
        }
    }
}

/// Status of success with its name, and the content of that answer; the one with an example if
/// there are several.
fn success(operation: &Value) -> (String, Option<&Value>) {
    let successes = entries(operation, "/responses").filter(|(status, _)| status.starts_with('2'));
    let contents = successes.map(|(status, response)| {
        let contents: Vec<&Value> = entries(response, "/content").map(|(_, it)| it).collect();
        let with_example = contents.iter().find(|it| it.get("example").is_some());
        (status, with_example.or(contents.first()).copied())
    });
    let has_example = |content: &Option<&Value>| {
        let content = content.as_ref();
        content.is_some_and(|content| content.get("example").is_some())
    };
    let best = contents.max_by_key(|(_, content)| has_example(content));
    let Some((status, content)) = best else {
        return (String::new(), None);
    };
    let code = status.parse::<u16>().ok();
    let code = code.and_then(|code| StatusCode::from_u16(code).ok());
    let reason = code.and_then(|code| code.canonical_reason());
    (format!("{status} {}", reason.unwrap_or_default()), content)
}

/// Fields of the object that a content is or has, and the words before them.
fn object(document: &Value, content: Option<&Value>) -> (String, Vec<Field>) {
    let schema = content.and_then(|content| content.get("schema"));
    let object = schema.and_then(|schema| types::object(document, schema));
    let described = object.map(|(object, note)| (note, fields::of_object(document, object)));
    described.unwrap_or_default()
}

/// An example as text: JSON in lines, or the text that it is.
fn shown(example: &Value) -> String {
    match example {
        Value::String(text) => text.clone(),
        example => serde_json::to_string_pretty(example).unwrap_or_default(),
    }
}

/// Limits of an operation beside those on requests and connections, which the introduction has.
fn limits(operation: &Value) -> Vec<String> {
    let body = operation.pointer("/x-millrace-limits/body_bytes_max");
    let body = body.and_then(Value::as_u64).filter(|bytes| *bytes > 0);
    let body = body.map(|bytes| format!("body: {} KiB", bytes >> 10));
    let counts = items(operation, "/x-millrace-limits/counts").filter_map(|count| {
        let name = text(count, "/name");
        let is_shared = ["admin_requests", "connections", "wrong keys"]
            .iter()
            .any(|shared| name.starts_with(shared));
        let max = count.get("max")?.as_u64()?;
        (!is_shared).then(|| format!("{name}: {max} of one {}", text(count, "/per")))
    });
    body.into_iter().chain(counts).collect()
}

fn scopes(operation: &Value) -> Vec<String> {
    let alternatives = items(operation, "/security");
    let scopes =
        alternatives.flat_map(|one| items(one, "/personalKey").map(|scope| text(scope, "")));
    scopes.collect()
}

fn parameters(document: &Value, operation: &Value) -> Vec<Field> {
    let parameters = items(operation, "/parameters").map(|parameter| {
        let parameter = resolved(document, parameter);
        Field {
            name: text(parameter, "/name"),
            kind: text(parameter, "/in"),
            is_required: parameter.pointer("/required") == Some(&Value::Bool(true)),
            description: markdown::inline(&text(parameter, "/description")),
            more: None,
        }
    });
    parameters.collect()
}
