//! Every operation of the API's own document, with random paths, parameters and bodies.
//!
//! A new operation is attacked as soon as it is documented. Ids name existing records of the
//! hostile tenant and of the good one.

use super::context::AttackContext;
use super::ids::Ids;
use super::sample::resolved;
use super::schema_values::{DEPTH_MAX, random_value};
use crate::attack::findings::is_judged;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::Value;
use std::sync::Arc;
use std::time::Instant;
use tokio::time::sleep;

/// Longest parameter in characters: a path may be no longer than a request head.
const PARAMETER_CHARS_MAX: usize = 2_000;
/// Paths whose changes would end the attack: they take away its keys, its project or its
/// organization.
const SPARED: [&str; 5] = [
    "/api/organizations/{organization_id}/",
    "/api/organizations/{organization_id}/projects/{project_id}/",
    "/api/organizations/{organization_id}/projects/{project_id}/reset_token/",
    "/api/personal_api_keys/{id}/",
    "/api/personal_api_keys/{id}/roll/",
];

/// An operation of the API's document.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) method: String,
    pub(super) path: String,
    /// Schema of the request body; null if there is none.
    body: Value,
    /// Names and schemas of the query parameters.
    pub(super) parameters: Vec<(String, Value)>,
}

/// Owner of the records that a request names, and the organization in its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    /// The hostile tenant's records in its own organization: any response but an error of the
    /// server.
    Own,
    /// The good tenant's records in its own organization: nothing may be changed or shown.
    Foreign,
    /// The good tenant's records in the hostile one's organization: nothing may be changed or
    /// shown.
    Smuggled,
}

/// Reads the API's document.
pub(super) async fn document(context: &AttackContext) -> Value {
    loop {
        let hostile = &context.tenants.hostile;
        let asked = hostile.ask_at("GET", "/api/schema/", &Value::Null).await;
        let document = asked.json();
        if document.pointer("/paths").is_some_and(Value::is_object) {
            return document;
        }
        sleep(context.pause).await;
    }
}

/// Schemas of the document, by name; null if it has none.
pub(super) fn schemas_of(document: &Value) -> &Value {
    let schemas = document.pointer("/components/schemas");
    schemas.unwrap_or(&Value::Null)
}

/// Sends random operations until the task is dropped.
pub(super) async fn all(context: Arc<AttackContext>, mut rng: StdRng) {
    let document = document(&context).await;
    let schemas = schemas_of(&document);
    let all = operations(&document);
    let mut ids = Ids::default();
    loop {
        let at = rng.random_range(0..all.len().max(1));
        if let Some(operation) = all.get(at) {
            let aim = match rng.random_range(0..3) {
                0 => Aim::Foreign,
                1 => Aim::Smuggled,
                _ => Aim::Own,
            };
            one(&context, operation, aim, schemas, &mut ids, &mut rng).await;
        }
        sleep(context.pause * 2).await;
    }
}

/// Operations of the API's document, without those that would end the attack.
pub(super) fn operations(document: &Value) -> Vec<Operation> {
    let shared = document.pointer("/components/parameters");
    let shared = shared.unwrap_or(&Value::Null);
    let paths = document.pointer("/paths").and_then(Value::as_object);
    let mut operations = Vec::new();
    for (path, methods) in paths.into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            if method != "get" && SPARED.contains(&path.as_str()) {
                continue;
            }
            let body = operation.pointer("/requestBody/content/application~1json/schema");
            operations.push(Operation {
                method: method.to_uppercase(),
                path: path.clone(),
                body: body.cloned().unwrap_or_default(),
                parameters: parameters(shared, operation),
            });
        }
    }
    operations
}

/// Names and schemas of an operation's query parameters, of which `shared` has those that it only
/// refers to.
fn parameters(shared: &Value, operation: &Value) -> Vec<(String, Value)> {
    let all = operation.pointer("/parameters").and_then(Value::as_array);
    let of_query = all
        .into_iter()
        .flatten()
        .map(|it| resolved(shared, it))
        .filter(|it| it.pointer("/in") == Some(&Value::from("query")));
    of_query
        .filter_map(|it| {
            let name = it.pointer("/name")?.as_str()?.to_owned();
            Some((name, it.pointer("/schema").cloned().unwrap_or_default()))
        })
        .collect()
}

/// Sends an operation and records its outcome and response time.
async fn one(
    context: &AttackContext,
    operation: &Operation,
    aim: Aim,
    schemas: &Value,
    ids: &mut Ids,
    rng: &mut StdRng,
) {
    let (hostile, good) = (&context.tenants.hostile, &context.tenants.good);
    let has_owner = ["{organization_id}", "{project_id}"]
        .iter()
        .any(|part| operation.path.contains(part));
    let (of, owner) = match aim {
        Aim::Foreign if has_owner => (good, good),
        Aim::Smuggled => (hostile, good),
        Aim::Own | Aim::Foreign => (hostile, hostile),
    };
    let filled = ids.fill(&operation.path, of, owner, rng).await;
    let body = match &operation.body {
        Value::Null => Value::Null,
        schema => random_value(schemas, schema, DEPTH_MAX, rng),
    };
    let query = query(&operation.parameters, schemas, rng);
    let path = format!("{}{query}", filled.path);
    let began = Instant::now();
    let outcome = hostile.ask_at(&operation.method, &path, &body).await;
    if is_judged(outcome.status()) {
        let name = format!("{} {}", operation.method, operation.path);
        context.findings.record_time(&name, began.elapsed());
    }
    let findings = &context.findings;
    match aim {
        Aim::Foreign if has_owner => {
            findings.note_among("operations on another organization", &outcome, &[403, 404]);
        }
        Aim::Smuggled if filled.is_there => {
            findings.note_refusal("operations on things of another organization", &outcome);
        }
        _ => findings.note("operations on the own organization", &outcome),
    }
}

/// Query with some of an operation's parameters, with values of their schemas or of none.
fn query(parameters: &[(String, Value)], schemas: &Value, rng: &mut StdRng) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, schema) in parameters {
        if rng.random() {
            let value = match random_value(schemas, schema, DEPTH_MAX, rng) {
                Value::String(text) => text,
                other => other.to_string(),
            };
            let value: String = value.chars().take(PARAMETER_CHARS_MAX).collect();
            query.append_pair(name, &value);
        }
    }
    match query.finish() {
        query if query.is_empty() => query,
        query => format!("?{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use serde_json::json;

    #[test]
    fn operations_have_random_values_of_their_schemas_and_a_seed_repeats_them() {
        let document = json!({
            "paths": {"/a/{id}/": {
                "post": {"requestBody": {"content": {"application/json": {"schema":
                    {"$ref": "#/components/schemas/A"}}}}},
                "get": {"parameters": [
                    {"$ref": "#/components/parameters/Limit"},
                    {"$ref": "#/components/parameters/RequestId"},
                    {"in": "path", "name": "id", "schema": {"type": "string"}},
                ]},
            }},
            "components": {
                "schemas": {"A": {"properties": {"name": {"type": "string"}}}},
                "parameters": {
                    "Limit": {"in": "query", "name": "limit", "schema": {"type": "integer"}},
                    "RequestId": {"in": "header", "name": "X-Request-Id"},
                },
            },
        });
        let all = operations(&document);
        assert_eq!(all.len(), 2);
        let schemas = &document["components"]["schemas"];
        let of = |method| all.iter().find(|it| it.method == method).unwrap();
        let bodies = |seed| {
            let mut rng = StdRng::seed_from_u64(seed);
            let bodies =
                (0..50).map(|_| random_value(schemas, &of("POST").body, DEPTH_MAX, &mut rng));
            bodies.collect::<Vec<_>>()
        };
        assert!(bodies(1).iter().any(|body| body["name"].is_string()));
        assert_eq!(bodies(1), bodies(1));
        let mut rng = StdRng::seed_from_u64(1);
        let queries = (0..50).map(|_| query(&of("GET").parameters, schemas, &mut rng));
        let queries: Vec<_> = queries.collect();
        assert!(queries.contains(&String::new()));
        assert!(queries.iter().any(|it| it.starts_with("?limit=")));
        assert!(queries.iter().all(|it| !it.contains("id=")));
        assert!(queries.iter().all(|it| !it.contains(['\n', ' '])));
    }

    #[test]
    fn operations_that_would_end_the_attack_are_spared() {
        let document =
            json!({"paths": {"/api/organizations/{organization_id}/": {"delete": {}, "get": {}}}});
        let all = operations(&document);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].method, "GET");
    }
}
