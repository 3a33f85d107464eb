//! Requests of operations, on records of the hostile tenant and of the good one.

use super::aim::{Aim, Target, targets};
use super::{document, operations, schemas_of};
use crate::attack::findings::is_judged;
use crate::attack::hostile::context::AttackContext;
use crate::attack::hostile::ids::Ids;
use crate::attack::hostile::schema_values::{DEPTH_MAX, random_value};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::Value;
use std::sync::Arc;
use std::time::Instant;
use tokio::time::sleep;

/// Group of the attempts that a complete run must have made.
const GROUP: &str = "operations of the document";
/// Longest parameter in characters: a path may be no longer than a request head.
const PARAMETER_CHARS_MAX: usize = 2_000;
/// One request in this many goes to any target while others were not processed yet.
const ANY_TARGET: u32 = 4;

/// Sends random operations until the task is dropped.
pub(in crate::attack::hostile) async fn all(context: Arc<AttackContext>, mut rng: StdRng) {
    let document = document(&context).await;
    let schemas = schemas_of(&document);
    let operations = operations(&document);
    let targets: Vec<(String, Target<'_>)> = targets(&operations)
        .into_iter()
        .map(|target| (target.name(), target))
        .collect();
    let coverage = &context.findings.coverage;
    coverage.expect(GROUP, targets.iter().map(|(name, _)| name));
    let mut ids = Ids::default();
    loop {
        if let Some((name, target)) = next(&context, &targets, &mut rng)
            && is_processed(&context, target, schemas, &mut ids, &mut rng).await
        {
            coverage.mark(GROUP, name);
        }
        sleep(context.pause * 2).await;
    }
}

/// Next target: most of the time one that was not processed yet.
fn next<'a, 't>(
    context: &AttackContext,
    targets: &'a [(String, Target<'t>)],
    rng: &mut StdRng,
) -> Option<&'a (String, Target<'t>)> {
    let coverage = &context.findings.coverage;
    let untried = targets
        .iter()
        .filter(|(name, _)| !coverage.is_tried(GROUP, name));
    let untried: Vec<_> = untried.collect();
    if untried.is_empty() || rng.random_ratio(1, ANY_TARGET) {
        return targets.get(rng.random_range(0..targets.len().max(1)));
    }
    let at = rng.random_range(0..untried.len());
    untried.get(at).copied()
}

/// Sends an operation and records its outcome and response time. Returns true if it was processed
/// with the aim that it had.
async fn is_processed(
    context: &AttackContext,
    target: &Target<'_>,
    schemas: &Value,
    ids: &mut Ids,
    rng: &mut StdRng,
) -> bool {
    let Target { operation, aim } = *target;
    let (hostile, good) = (&context.tenants.hostile, &context.tenants.good);
    let (of, owner) = match aim {
        Aim::Own => (hostile, hostile),
        Aim::Foreign => (good, good),
        Aim::Smuggled => (hostile, good),
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
    let findings = &context.findings;
    if is_judged(outcome.status()) {
        findings.record_time(&operation.name(), began.elapsed());
    }
    let is_aimed = aim != Aim::Smuggled || filled.is_there;
    match aim {
        Aim::Foreign => findings.note_among(aim.attempts(), &outcome, &[403, 404]),
        Aim::Smuggled if is_aimed => findings.note_refusal(aim.attempts(), &outcome),
        Aim::Own | Aim::Smuggled => findings.note(Aim::Own.attempts(), &outcome),
    }
    is_aimed && is_judged(outcome.status())
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
}
