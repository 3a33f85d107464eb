//! Requests of operations, on records of the hostile tenant and of the good one.

use super::aim::{Aim, REFUSALS, Target, targets};
use super::search::{Attempt, Measured};
use super::{Operation, document, operations, schemas_of};
use crate::attack::findings::is_judged;
use crate::attack::hostile::context::AttackContext;
use crate::attack::hostile::ids::{Filled, Ids};
use crate::attack::hostile::sample::{SAMPLE_DEPTH_MAX, sample};
use crate::attack::hostile::schema_values::{DEPTH_MAX, random_value};
use crate::attack::http::Outcome;
use crate::attack::tenants::{Tenant, TimeSpan};
use crate::wall_clock::since_epoch;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

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
        .map(|target| (target.operation.name(), target))
        .collect();
    let coverage = &context.findings.coverage;
    for (name, target) in &targets {
        coverage.expect(target.aim.group(), [name]);
    }
    let mut ids = Ids::default();
    while !context.is_ending() {
        let drawn =
            |operation: &Operation, rng: &mut StdRng| query(&operation.parameters, schemas, rng);
        let kept = match rng.random() {
            true => context.operation_search.next(&operations, drawn, &mut rng),
            false => None,
        };
        if let Some((operation, attempt)) = kept {
            let aim = Aim::Own;
            let target = Target { operation, aim };
            is_proved(&context, target, attempt, &mut ids, &mut rng).await;
        } else if let Some((name, target)) = next(&context, &targets, &mut rng) {
            let attempt = drawn_for(target, schemas, &mut rng);
            if is_proved(&context, *target, attempt, &mut ids, &mut rng).await {
                coverage.mark(target.aim.group(), name);
            }
        }
        sleep(context.pause * 2).await;
    }
}

/// Next target: most of the time one that was not proved yet.
fn next<'a, 't>(
    context: &AttackContext,
    targets: &'a [(String, Target<'t>)],
    rng: &mut StdRng,
) -> Option<&'a (String, Target<'t>)> {
    let coverage = &context.findings.coverage;
    let untried = targets
        .iter()
        .filter(|(name, target)| !coverage.is_tried(target.aim.group(), name));
    let untried: Vec<_> = untried.collect();
    if untried.is_empty() || rng.random_ratio(1, ANY_TARGET) {
        return targets.get(rng.random_range(0..targets.len().max(1)));
    }
    let at = rng.random_range(0..untried.len());
    untried.get(at).copied()
}

/// A request with random values; on another organization also with values that its schema accepts,
/// as a body that is refused says nothing about whose records it would have changed.
fn drawn_for(target: &Target<'_>, schemas: &Value, rng: &mut StdRng) -> Attempt {
    let operation = target.operation;
    let is_plain = target.aim != Aim::Own && rng.random();
    Attempt {
        operation: operation.name(),
        query: query(&operation.parameters, schemas, rng),
        body: match &operation.body {
            Value::Null => Value::Null,
            schema if is_plain => sample(schemas, schema, SAMPLE_DEPTH_MAX),
            schema => random_value(schemas, schema, DEPTH_MAX, rng),
        },
    }
}

/// Sends a request and records its outcome and cost. Returns true if it proved what it was sent
/// for: it was processed, or refused although what it named was there.
async fn is_proved(
    context: &AttackContext,
    target: Target<'_>,
    attempt: Attempt,
    ids: &mut Ids,
    rng: &mut StdRng,
) -> bool {
    let Target { operation, aim } = target;
    let (hostile, good) = (&context.tenants.hostile, &context.tenants.good);
    let (of, owner) = match aim {
        Aim::Own => (hostile, hostile),
        Aim::Foreign => (good, good),
        Aim::Smuggled => (hostile, good),
    };
    let filled = ids.fill(&operation.path, of, owner, rng).await;
    if operation.is_spared() && !filled.is_there {
        // A made-up id may be a word for the hostile tenant's own key.
        return false;
    }
    let path = format!("{}{}", filled.path, attempt.query);
    let from = since_epoch();
    let (outcome, took) = ask(context, operation, &path, &attempt.body).await;
    let during = TimeSpan {
        from,
        until: since_epoch(),
    };
    let findings = &context.findings;
    match aim {
        Aim::Foreign => findings.note_among(aim.attempts(), &outcome, &REFUSALS),
        Aim::Smuggled if filled.is_there => findings.note_refusal(aim.attempts(), &outcome),
        Aim::Own | Aim::Smuggled => findings.note(Aim::Own.attempts(), &outcome),
    }
    if aim == Aim::Own && is_judged(outcome.status()) {
        let measured = Measured::new(attempt, outcome.text().len(), took);
        keep(context, operation, &path, measured).await;
    }
    aim.is_proved(outcome.status(), filled.is_there) && was_there(owner, &filled, during).await
}

/// Returns true if the query that a path names, if it names one, ran during the request.
async fn was_there(owner: &Tenant, filled: &Filled, during: TimeSpan) -> bool {
    match &filled.query_id {
        Some(id) => owner.long_query.ran_during(id, during).await,
        None => true,
    }
}

/// Keeps a request if it is among the costliest. A slow one is sent again, as the server has other
/// work, too.
async fn keep(context: &AttackContext, operation: &Operation, path: &str, measured: Measured) {
    let search = &context.operation_search;
    let measured = if search.is_slow(&measured) {
        let (outcome, took) = ask(context, operation, path, measured.body()).await;
        match is_judged(outcome.status()) {
            true => measured.tried_again(took),
            false => return,
        }
    } else {
        measured
    };
    search.keep(&measured);
}

/// Sends a request; returns its outcome and the time that it took.
async fn ask(
    context: &AttackContext,
    operation: &Operation,
    path: &str,
    body: &Value,
) -> (Outcome, Duration) {
    let timed = TimedRequest {
        context,
        operation,
        is_extra: context.is_extra(),
        began: Instant::now(),
    };
    let hostile = &context.tenants.hostile;
    let outcome = hostile.ask_at(&operation.method, path, body).await;
    (outcome, timed.began.elapsed())
}

/// Request whose time is recorded when it is dropped: also one that was never answered, and was
/// given up at the end of an attack. Times of extra rounds are kept apart.
struct TimedRequest<'a> {
    context: &'a AttackContext,
    operation: &'a Operation,
    is_extra: bool,
    began: Instant,
}

impl Drop for TimedRequest<'_> {
    fn drop(&mut self) {
        let (operation, took) = (self.operation, self.began.elapsed());
        let times = match self.is_extra {
            true => &self.context.findings.extra_times,
            false => &self.context.findings.times,
        };
        times.record(&operation.name(), operation.seconds_max, took);
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
}
