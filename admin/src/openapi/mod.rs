//! The OpenAPI 3.1 document: the table of operations and the schemas of their types, written down.
//!
//! | Module | Holds |
//! |---|---|
//! | `names` | what operations are called, and how they are grouped |
//! | `operation` | one operation: parameters, body, links |
//! | `responses` | what may be answered, and when |
//! | `components` | what operations share |
//! | `definitions` | the types inside of bodies |
//! | `docs`, `variants` | the document as a page |

mod components;
mod definitions;
pub(crate) mod docs;
mod names;
mod operation;
mod responses;
mod variants;

use crate::answer::AnswerSchema;
use crate::error::{ErrorBody, ProblemBody};
use crate::router::PathItem;
use crate::schema::without_boolean_schemas;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The document over all paths.
pub(crate) fn document(paths: &[Arc<PathItem>]) -> Value {
    let mut schemas = Schemas::new();
    schemas.answer::<ErrorBody>();
    schemas.answer::<ProblemBody>();
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
    oldest organization, or for the project with the lowest number in it; `@me` for the caller's \
    membership. Unknown, foreign and malformed ids are all 404.\n\n\
    `PUT` does what `PATCH` does, and requires the fields that creating requires. Fields that are \
    unknown or read-only are ignored. Times come with any offset and go out in UTC.";

/// The schemas of all types, by name.
pub(crate) struct Schemas {
    generator: SchemaGenerator,
    bodies: Map<String, Value>,
}

impl Schemas {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12()
            .for_serialize()
            .with(|settings| {
                settings.meta_schema = None;
                settings.definitions_path = "/components/schemas".into();
            })
            .with_transform(without_boolean_schemas());
        Self {
            generator: settings.into_generator(),
            bodies: Map::new(),
        }
    }

    fn answer<T: JsonSchema>(&mut self) -> Value {
        self.generator.subschema_for::<T>().to_value()
    }

    /// A reference to the type of an answer; `None` if it is no JSON.
    fn of(&mut self, answer: &AnswerSchema) -> Option<Value> {
        match answer {
            AnswerSchema::Empty | AnswerSchema::Html => None,
            AnswerSchema::Json(schema) => Some(schema(&mut self.generator).to_value()),
        }
    }

    /// A reference to the type of a body.
    fn body(&mut self, name: &str, schema: &Value) -> Value {
        self.bodies.insert(name.to_owned(), schema.clone());
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }

    fn finished(mut self) -> Value {
        let mut all = self.generator.take_definitions(true);
        for (name, body) in self.bodies {
            let body = definitions::lifted(body, &mut all);
            all.insert(name, body);
        }
        all.into()
    }
}

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
    fn operations_are_named_once_and_described() {
        let router = table();
        let mut names = BTreeSet::new();
        for operation in operations(&router) {
            let name = super::names::operation_id(operation);
            assert!(names.insert(name.clone()), "{name} twice");
            assert!(!operation.summary.is_empty(), "{name} has no summary");
        }
    }

    #[test]
    fn schemas_of_bodies_compile_and_have_names_of_their_own() {
        let router = table();
        let document = super::document(router.items());
        let mut bodies = BTreeMap::new();
        for body in operations(&router).filter_map(|operation| operation.body.as_ref()) {
            assert!(
                body.validator.is_ok(),
                "{}: {:?}",
                body.name,
                body.validator
            );
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
    fn references_lead_somewhere() {
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
