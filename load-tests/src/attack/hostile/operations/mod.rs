//! Every operation of the API's own document, with random paths, parameters and bodies.
//!
//! A new operation is attacked as soon as it is documented. Ids name existing records of the
//! hostile tenant and of the good one. A complete run has each operation processed on the own
//! organization, and refused on another one and on existing records of that.
//!
//! - [`aim`]: organizations and records that an operation is sent to.
//! - [`operation`]: an operation; [`requests`]: the requests.
//! - [`search`], [`mutation`]: those that cost most, and random changes to their bodies.

mod aim;
mod mutation;
mod operation;
mod requests;
mod search;

pub(super) use operation::Operation;
pub(super) use requests::all;
pub use search::CostlyOperation;
pub(super) use search::OperationSearch;

use super::context::AttackContext;
use super::sample::resolved;
use serde_json::Value;
use tokio::time::sleep;

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

/// Operations of the API's document.
pub(super) fn operations(document: &Value) -> Vec<Operation> {
    let shared = document.pointer("/components/parameters");
    let shared = shared.unwrap_or(&Value::Null);
    let paths = document.pointer("/paths").and_then(Value::as_object);
    let mut operations = Vec::new();
    for (path, methods) in paths.into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let body = operation.pointer("/requestBody/content/application~1json/schema");
            operations.push(Operation {
                method: method.to_uppercase(),
                path: path.clone(),
                body: body.cloned().unwrap_or_default(),
                parameters: parameters(shared, operation),
                seconds_max: operation
                    .pointer("/x-millrace-limits/seconds_max")
                    .and_then(Value::as_f64)
                    .unwrap_or_default(),
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
