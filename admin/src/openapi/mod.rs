//! The OpenAPI 3.1 document, made from the table of operations and the schemas of their types.
//!
//! | Module | Holds |
//! |---|---|
//! | `names` | ids of operations |
//! | `tags` | groups of operations, with their titles |
//! | `operation` | one operation: parameters, body, links |
//! | `responses` | responses of an operation |
//! | `components` | components that operations share |
//! | `definitions` | types inside of bodies |
//! | `schemas` | schemas of all types |
//! | `examples` | requests and answers that the tests recorded |
//! | `page` | the document as a page |

mod components;
mod definitions;
mod examples;
mod names;
mod operation;
pub(crate) mod page;
mod responses;
mod schemas;
mod tags;

pub(crate) use names::operation_id;

use crate::error::{ErrorBody, ProblemBody};
use crate::router::PathItem;
use examples::Examples;
use schemas::Schemas;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Builds the document of all paths.
pub(crate) fn document(paths: &[Arc<PathItem>]) -> Value {
    let (mut schemas, examples) = (Schemas::new(), Examples::read());
    schemas.response::<ErrorBody>();
    schemas.response::<ProblemBody>();
    let mut written = Map::new();
    let mut used = BTreeSet::new();
    for item in paths {
        let mut methods = Map::new();
        for operation in &item.operations {
            let method = operation.method.as_str().to_ascii_lowercase();
            used.insert(tags::of(operation));
            let mut operation = operation::written(operation, paths, &mut schemas);
            examples.add_to(&mut operation);
            methods.insert(method, operation);
        }
        written.insert(item.template.to_owned(), methods.into());
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Millrace organization API",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT", "identifier": "MIT" },
            "description": INTRODUCTION,
        },
        "servers": [{ "url": "/" }],
        "tags": tags::written(&used),
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

/// What all operations share, in Markdown.
const INTRODUCTION: &str = include_str!("introduction.md");

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

    #[test]
    fn every_group_of_operations_has_a_title() {
        for operation in operations(&table()) {
            let tag = super::tags::of(operation);
            let has_title = super::tags::ALL.iter().any(|known| known.name == tag);
            assert!(has_title, "{tag} of {} has no title", operation.path);
        }
    }

    #[test]
    fn every_field_of_every_type_has_a_description() {
        let document = super::document(table().items());
        let mut fields = Vec::new();
        let types = document["components"]["schemas"].as_object().unwrap();
        for (name, schema) in types {
            described(&document, name, schema, &mut fields);
        }
        assert!(fields.len() > 500, "{}", fields.len());
        let missing = fields.iter().filter(|(_, is_described)| !is_described);
        let missing: Vec<&str> = missing.map(|(name, _)| name.as_str()).collect();
        assert!(missing.is_empty(), "without a description: {missing:#?}");
    }

    /// Collects the fields of a schema, each with whether it or its type has a description.
    fn described(
        document: &serde_json::Value,
        name: &str,
        schema: &serde_json::Value,
        found: &mut Vec<(String, bool)>,
    ) {
        let has_text = |value: &serde_json::Value| {
            let text = value["description"].as_str();
            text.is_some_and(|text| !text.trim().is_empty())
        };
        match schema {
            serde_json::Value::Object(keywords) => {
                let properties = keywords.get("properties").and_then(|it| it.as_object());
                for (field, property) in properties.into_iter().flatten() {
                    let kind = super::page::lookup::resolved(document, property);
                    let is_described = has_text(property) || has_text(kind);
                    found.push((format!("{name}.{field}"), is_described));
                    described(document, name, property, found);
                }
                // Conditions name fields that are described elsewhere.
                let inner = keywords.iter().filter(|(keyword, _)| {
                    !["properties", "if", "then", "not"].contains(&keyword.as_str())
                });
                inner.for_each(|(_, inner)| described(document, name, inner, found));
            }
            serde_json::Value::Array(items) => {
                items
                    .iter()
                    .for_each(|item| described(document, name, item, found));
            }
            _ => {}
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
