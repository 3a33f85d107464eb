//! Description of one operation in the document.

use super::schemas::Schemas;
use super::{names, responses, tags};
use crate::operation::{Access, Operation};
use crate::request::auth::scope_name;
use crate::router::{PathItem, parameter_names};
use http::Method;
use millrace_catalog::Level;
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub(super) fn written(
    operation: &Operation,
    paths: &[Arc<PathItem>],
    schemas: &mut Schemas,
) -> Value {
    let mut written = Map::new();
    let mut put = |name: &str, value: Value| drop(written.insert(name.to_owned(), value));
    put("operationId", json!(names::operation_id(operation)));
    put("tags", json!([tags::of(operation)]));
    put("summary", json!(operation.summary));
    put("description", json!(description(operation)));
    put("security", security(operation));
    put("parameters", parameters(operation));
    put("x-millrace-limits", limits(operation));
    if let Some(body) = &operation.body {
        let reference = schemas.body(&body.name, &body.schema);
        let body = json!({
            "required": !body.is_optional,
            "content": { "application/json": { "schema": reference } },
        });
        put("requestBody", body);
    }
    let links = links(operation, paths);
    put("responses", responses::of(operation, links, schemas));
    written.into()
}

/// Description of an operation: its note, the access that it requires, its own errors.
fn description(operation: &Operation) -> String {
    let mut paragraphs = Vec::new();
    if !operation.description.is_empty() {
        paragraphs.push(operation.description.to_owned());
    }
    let access = match operation.access {
        Access::Open => Some("Open to everyone."),
        Access::Level(Level::Administrator) => Some("For administrators and owners."),
        Access::Level(Level::Owner) => Some("For owners."),
        Access::Pipelines => Some(
            "For administrators and owners; for members too where the organization has \
             `members_can_write_pipelines`.",
        ),
        Access::Operator => Some("For keys with the scope `operator`."),
        Access::Authenticated | Access::Level(Level::Member) => None,
    };
    paragraphs.extend(access.map(str::to_owned));
    if let Some(feature) = operation.feature {
        paragraphs.push(format!("Needs the feature `{}`.", feature.key));
    }
    let failures = operation.failures.iter();
    let failures: Vec<String> = failures
        .map(|failure| format!("- {} `{}`: {}", failure.status, failure.code, failure.when))
        .collect();
    if !failures.is_empty() {
        paragraphs.push(failures.join("\n"));
    }
    paragraphs.join("\n\n")
}

/// Cost bounds of a request, and limits on all requests of an owner.
fn limits(operation: &Operation) -> Value {
    let bounds = &operation.bounds;
    let counts = operation.limits().map(|limit| {
        let count = limit.count();
        json!({ "name": count.name, "per": count.per, "max": count.max })
    });
    json!({
        "body_bytes_max": bounds.body_bytes_max,
        "answer_bytes_max": bounds.answer_bytes_max,
        "page_bytes_max": bounds.page_bytes_max,
        "seconds_max": bounds.timeout.as_secs(),
        "counts": counts.collect::<Value>(),
    })
}

/// Security requirements: alternatives, each with one scope.
fn security(operation: &Operation) -> Value {
    if operation.access == Access::Open {
        return json!([{}, { "personalKey": [] }, { "session": [] }]);
    }
    if operation.access == Access::Operator {
        return json!([{ "personalKey": [millrace_catalog::OPERATOR] }]);
    }
    if operation.scopes.is_empty() {
        return json!([{ "personalKey": [] }, { "session": [] }]);
    }
    let scopes = operation.scopes.iter().map(scope_name);
    scopes
        .map(|scope| json!({ "personalKey": [scope] }))
        .chain([json!({ "session": [] })])
        .collect()
}

fn parameters(operation: &Operation) -> Value {
    let mut parameters: Vec<Value> = parameter_names(operation.path).map(of_path).collect();
    let shared = |name: &str| json!({ "$ref": format!("#/components/parameters/{name}") });
    if operation.is_list {
        parameters.extend([shared("Limit"), shared("Offset")]);
    }
    for query in &operation.query {
        parameters.push(json!({
            "name": query.name,
            "in": "query",
            "description": query.description,
            "schema": { "type": query.kind },
        }));
    }
    match operation.method {
        Method::GET | Method::POST if operation.is_stream => {}
        Method::GET if !operation.is_list => parameters.push(shared("IfNoneMatch")),
        Method::GET => {}
        Method::POST if operation.is_never_replayed => {}
        Method::POST => parameters.push(shared("IdempotencyKey")),
        _ => {}
    }
    if operation.version.is_some() {
        parameters.push(shared("IfMatch"));
    }
    parameters.push(shared("RequestId"));
    parameters.into()
}

fn of_path(name: &'static str) -> Value {
    let description = match name {
        "organization_id" => "Id of an organization, or `@current`.",
        "project_id" => "Id of a project, or `@current`.",
        "user_uuid" => "UUID of a user, or `@me`.",
        "token" => "Token of the link.",
        _ => "Id of the resource.",
    };
    json!({
        "name": name,
        "in": "path",
        "required": true,
        "description": description,
        "schema": { "type": "string", "minLength": 1 },
    })
}

/// Links from the response of a creation, by the new id, to the operations on the new resource.
/// Lists have no links, as a page may be empty.
fn links(operation: &Operation, paths: &[Arc<PathItem>]) -> Map<String, Value> {
    if operation.method != Method::POST || operation.is_action {
        return Map::new();
    }
    let id = "$response.body#/id";
    let mut links = Map::new();
    for item in paths {
        let below = item.template.strip_prefix(operation.path);
        let is_item = below.is_some_and(|below| below.starts_with('{'));
        let mut names: Vec<&str> = parameter_names(item.template).collect();
        let own = names.pop();
        if !is_item || names != parameter_names(operation.path).collect::<Vec<_>>() {
            continue;
        }
        for target in &item.operations {
            let outer = names.iter().map(|name| {
                let value = json!(format!("$request.path.{name}"));
                ((*name).to_owned(), value)
            });
            let mut parameters: Map<String, Value> = outer.collect();
            if let Some(own) = own {
                parameters.insert(own.to_owned(), json!(id));
            }
            let name = names::operation_id(target);
            let link = json!({ "operationId": name, "parameters": parameters });
            links.insert(name, link);
        }
    }
    links
}
