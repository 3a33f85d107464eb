//! Responses of an operation in the document.

use super::schemas::Schemas;
use crate::operation::{Access, Operation};
use crate::response::ResponseSchema;
use crate::router::parameter_names;
use http::Method;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

pub(super) fn of(operation: &Operation, links: Map<String, Value>, schemas: &mut Schemas) -> Value {
    let mut written = Map::new();
    let success = success(operation, links, schemas);
    for status in [Some(operation.status), operation.other_status]
        .into_iter()
        .flatten()
    {
        written.insert(status.as_str().to_owned(), success.clone());
    }
    for status in failures(operation) {
        let reference = json!({ "$ref": format!("#/components/responses/{status}") });
        written.insert(status.to_string(), reference);
    }
    written.into()
}

fn success(operation: &Operation, links: Map<String, Value>, schemas: &mut Schemas) -> Value {
    let mut headers = vec!["X-Request-Id"];
    if operation.access != Access::Open {
        headers.extend(["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"]);
    }
    if operation.has_tag() {
        headers.push("ETag");
    }
    let is_replayed = !operation.is_stream && !operation.is_never_replayed;
    if operation.method == Method::POST && is_replayed {
        headers.push("Idempotent-Replayed");
    }
    let shared = |name: &&str| json!({ "$ref": format!("#/components/headers/{name}") });
    let headers: Map<String, Value> = headers
        .iter()
        .map(|name| ((*name).to_owned(), shared(name)))
        .collect();
    let mut written = json!({ "description": description(operation), "headers": headers });
    if let Some(written) = written.as_object_mut() {
        let content = match (&operation.response, schemas.of(&operation.response)) {
            (ResponseSchema::Html, _) => Some(json!({ "text/html": {} })),
            (ResponseSchema::Csv, _) => Some(json!({ "text/csv": {} })),
            (ResponseSchema::Stream(media_types), _) => {
                let media_types = media_types.iter();
                let types = media_types.map(|name| ((*name).to_owned(), json!({})));
                Some(Value::Object(types.collect()))
            }
            (_, Some(schema)) => Some(json!({ "application/json": { "schema": schema } })),
            _ => None,
        };
        written.extend(content.map(|content| ("content".to_owned(), content)));
        if !links.is_empty() {
            written.insert("links".to_owned(), links.into());
        }
    }
    written
}

fn description(operation: &Operation) -> String {
    let content = match (&operation.method, operation.is_action) {
        (_, true) => "The action is done.",
        (&Method::GET, _) if operation.is_list => "A page of the list.",
        (&Method::GET, _) if operation.is_stream => "The stream.",
        (&Method::GET, _) => "The resource.",
        (&Method::POST, _) => "The new resource.",
        (&Method::DELETE, _) => "The resource was deleted.",
        _ => "The changed resource.",
    };
    if operation.shown_once.is_empty() {
        return content.to_owned();
    }
    let fields = operation.shown_once.join("`, `");
    format!("{content} `{fields}` is shown only here, once; in a replay it is null.")
}

/// Every status of an operation that is no success.
fn failures(operation: &Operation) -> BTreeSet<u16> {
    let mut statuses = BTreeSet::from([401, 405, 429, 503]);
    statuses.extend(operation.failures.iter().map(|failure| failure.status));
    if operation.access != Access::Open {
        statuses.insert(403);
    }
    if parameter_names(operation.path).next().is_some() {
        statuses.insert(404);
    }
    if operation.body.is_some() {
        statuses.extend([400, 413, 415]);
    }
    let is_replayed = !operation.is_stream && !operation.is_never_replayed;
    if operation.method == Method::POST && is_replayed {
        statuses.insert(409);
    }
    if operation.version.is_some() {
        statuses.insert(412);
    }
    if operation.method == Method::GET && operation.has_tag() {
        statuses.insert(304);
    }
    statuses
}
