//! The OpenAPI 3.1 document, made from the table of operations and the schemas of their types.
//!
//! | Module | Holds |
//! |---|---|
//! | `names` | ids and groups of operations |
//! | `operation` | one operation: parameters, body, links |
//! | `responses` | responses of an operation |
//! | `components` | components that operations share |
//! | `definitions` | types inside of bodies |
//! | `schemas` | schemas of all types |
//! | `docs`, `fields`, `variants` | the document as a page |

mod components;
mod definitions;
pub(crate) mod docs;
mod fields;
mod names;
mod operation;
mod responses;
mod schemas;
mod variants;

pub(crate) use names::operation_id;

use crate::error::{ErrorBody, ProblemBody};
use crate::router::PathItem;
use schemas::Schemas;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Builds the document of all paths.
pub(crate) fn document(paths: &[Arc<PathItem>]) -> Value {
    let mut schemas = Schemas::new();
    schemas.response::<ErrorBody>();
    schemas.response::<ProblemBody>();
    let mut written = Map::new();
    let mut tags = BTreeSet::new();
    for item in paths {
        let mut methods = Map::new();
        for operation in &item.operations {
            let method = operation.method.as_str().to_ascii_lowercase();
            tags.insert(names::tag(operation));
            methods.insert(method, operation::written(operation, paths, &mut schemas));
        }
        written.insert(item.template.to_owned(), methods.into());
    }
    let tags: Vec<Value> = tags
        .into_iter()
        .map(|name| json!({ "name": name }))
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Millrace organization API",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT", "identifier": "MIT" },
            "description": INTRODUCTION,
        },
        "servers": [{ "url": "/" }],
        "tags": tags,
        "paths": written,
        "components": {
            "securitySchemes": components::security_schemes(),
            "parameters": components::parameters(),
            "headers": components::headers(),
            "responses": components::responses(),
            "schemas": schemas.finished(),
        },
    })
}

const INTRODUCTION: &str = "Manages organizations: their projects, people, exports and plugins.\n\n\
    Every path works with and without the slash at its end. `@current` stands for the caller's \
    oldest organization, or for the project with the lowest id in it; `@me` for the caller's \
    membership. Unknown, foreign and malformed ids are all 404.\n\n\
    `PUT` does what `PATCH` does, and requires the fields that creating requires. Fields that are \
    unknown or read-only are ignored. Times come with any offset and go out in UTC.";

#[cfg(test)]
mod tests {
    use crate::operation::Operation;
    use crate::router::Router;
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Arc;

    fn table() -> Router {
        Router::new(crate::routes::operations(&Arc::default())).unwrap()
    }

    fn operations(router: &Router) -> impl Iterator<Item = &Operation> {
        let items = router.items().iter();
        items.flat_map(|item| item.operations.iter().map(|operation| &**operation))
    }

    #[test]
    fn operations_have_unique_ids_and_summaries() {
        let router = table();
        let mut names = BTreeSet::new();
        for operation in operations(&router) {
            let name = operation_id(operation);
            assert!(names.insert(name.clone()), "{name} twice");
            assert!(!operation.summary.is_empty(), "{name} has no summary");
        }
    }

    #[test]
    fn schemas_of_bodies_compile_and_have_unique_names() {
        let router = table();
        let document = super::document(router.items());
        let mut bodies = BTreeMap::new();
        for body in operations(&router).filter_map(|operation| operation.body.as_ref()) {
            let validator = (**body.validator).as_ref();
            let validator = validator.unwrap_or_else(|error| panic!("{}: {error}", body.name));
            let allows_nothing = validator.is_valid(&serde_json::json!({}));
            assert_eq!(body.is_optional, allows_nothing, "{}", body.name);
            let had = bodies.insert(body.name.clone(), body.schema.clone());
            assert!(
                had.is_none_or(|had| had == body.schema),
                "two are called {}",
                body.name
            );
            let published = &document["components"]["schemas"][&body.name];
            assert_eq!(
                published["title"], body.schema["title"],
                "an answer is called {}",
                body.name
            );
        }
    }

    #[test]
    fn every_reference_of_the_document_resolves() {
        let document = super::document(table().items());
        let mut wanted = BTreeSet::new();
        references(&document, &mut wanted);
        assert!(wanted.len() > 10);
        for reference in wanted {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    fn references(value: &serde_json::Value, found: &mut BTreeSet<String>) {
        match value {
            serde_json::Value::Object(fields) => {
                if let Some(reference) = fields.get("$ref").and_then(|target| target.as_str()) {
                    found.insert(reference.to_owned());
                }
                fields.values().for_each(|field| references(field, found));
            }
            serde_json::Value::Array(items) => {
                items.iter().for_each(|item| references(item, found));
            }
            _ => {}
        }
    }
}
