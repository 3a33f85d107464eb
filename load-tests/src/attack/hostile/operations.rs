//! Every operation of the API's own document, with paths, parameters and bodies made at random: what is new is
//! attacked as soon as it is documented. Ids are of things that are there, the tenant's own and somebody else's.

use super::Arsenal;
use super::ids::Ids;
use super::made::{DEPTH_MAX, made};
use crate::attack::tally::is_judged;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::Value;
use std::sync::Arc;
use std::time::Instant;
use tokio::time::sleep;

/// Bytes of a parameter: a path may be no longer than a head.
const PARAMETER_CHARS_MAX: usize = 2_000;
/// Paths whose changes would take away what the attack is made with: its keys, its project, itself.
const SPARED: [&str; 5] = [
    "/api/organizations/{organization_id}/",
    "/api/organizations/{organization_id}/projects/{project_id}/",
    "/api/organizations/{organization_id}/projects/{project_id}/reset_token/",
    "/api/personal_api_keys/{id}/",
    "/api/personal_api_keys/{id}/roll/",
];

/// One of the document's operations.
#[derive(Debug)]
struct Operation {
    method: String,
    path: String,
    /// Schema of its body; null if it has none.
    body: Value,
    /// Names and schemas of what may follow its path.
    parameters: Vec<(String, Value)>,
}

/// Owner of the things that are asked for, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    /// The hostile tenant's in its own organization, which may do whatever it says.
    Own,
    /// The good tenant's, in its organization: nothing may be done or seen.
    Foreign,
    /// The good tenant's, as if they were in the hostile one's organization: likewise.
    Smuggled,
}

/// The API's own document.
pub(super) async fn document(arsenal: &Arsenal) -> Value {
    loop {
        let hostile = &arsenal.tenants.hostile;
        let asked = hostile.ask_at("GET", "/api/schema/", &Value::Null).await;
        let document = asked.json();
        if document.pointer("/paths").is_some_and(Value::is_object) {
            return document;
        }
        sleep(arsenal.pause).await;
    }
}

/// One of them after the other, in an order of its own.
pub(super) async fn all(arsenal: Arc<Arsenal>, mut rng: StdRng) {
    let document = document(&arsenal).await;
    let schemas = document.pointer("/components/schemas");
    let schemas = schemas.unwrap_or(&Value::Null);
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
            one(&arsenal, operation, aim, schemas, &mut ids, &mut rng).await;
        }
        sleep(arsenal.pause * 2).await;
    }
}

fn operations(document: &Value) -> Vec<Operation> {
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
                parameters: parameters(operation),
            });
        }
    }
    operations
}

/// Names and schemas of what may follow the path.
fn parameters(operation: &Value) -> Vec<(String, Value)> {
    let all = operation.pointer("/parameters").and_then(Value::as_array);
    let of_query = all
        .into_iter()
        .flatten()
        .filter(|it| it.pointer("/in") == Some(&Value::from("query")));
    of_query
        .filter_map(|it| {
            let name = it.pointer("/name")?.as_str()?.to_owned();
            Some((name, it.pointer("/schema").cloned().unwrap_or_default()))
        })
        .collect()
}

/// Sends it, and notes what came of it and how long it took.
async fn one(
    arsenal: &Arsenal,
    operation: &Operation,
    aim: Aim,
    schemas: &Value,
    ids: &mut Ids,
    rng: &mut StdRng,
) {
    let (hostile, good) = (&arsenal.tenants.hostile, &arsenal.tenants.good);
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
        schema => made(schemas, schema, DEPTH_MAX, rng),
    };
    let query = query(&operation.parameters, schemas, rng);
    let path = format!("{}{query}", filled.path);
    let began = Instant::now();
    let outcome = hostile.ask_at(&operation.method, &path, &body).await;
    if is_judged(outcome.status()) {
        let name = format!("{} {}", operation.method, operation.path);
        arsenal.tally.took(&name, began.elapsed());
    }
    let tally = &arsenal.tally;
    match aim {
        Aim::Foreign if has_owner => {
            tally.note_among("operations on another organization", &outcome, &[403, 404]);
        }
        Aim::Smuggled if filled.is_there => {
            tally.note_refusal("operations on things of another organization", &outcome);
        }
        _ => tally.note("operations on the own organization", &outcome),
    }
}

/// Some of an operation's parameters, with values of their schemas or of none.
fn query(parameters: &[(String, Value)], schemas: &Value, rng: &mut StdRng) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, schema) in parameters {
        if rng.random() {
            let value = match made(schemas, schema, DEPTH_MAX, rng) {
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
    fn an_operation_has_fields_and_parameters_of_its_schemas_and_a_seed_gives_the_same() {
        let document = json!({
            "paths": {"/a/{id}/": {
                "post": {"requestBody": {"content": {"application/json": {"schema":
                    {"$ref": "#/components/schemas/A"}}}}},
                "get": {"parameters": [
                    {"in": "query", "name": "limit", "schema": {"type": "integer"}},
                    {"in": "path", "name": "id", "schema": {"type": "string"}},
                ]},
            }},
            "components": {"schemas": {"A": {"properties": {"name": {"type": "string"}}}}},
        });
        let all = operations(&document);
        assert_eq!(all.len(), 2);
        let schemas = &document["components"]["schemas"];
        let of = |method| all.iter().find(|it| it.method == method).unwrap();
        let bodies = |seed| {
            let mut rng = StdRng::seed_from_u64(seed);
            let bodies = (0..50).map(|_| made(schemas, &of("POST").body, DEPTH_MAX, &mut rng));
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
    fn what_would_end_the_attack_is_spared() {
        let document =
            json!({"paths": {"/api/organizations/{organization_id}/": {"delete": {}, "get": {}}}});
        let all = operations(&document);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].method, "GET");
    }
}
