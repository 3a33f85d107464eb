//! Schemas of all types of the document.

use super::definitions;
use crate::response::ResponseSchema;
use crate::schema::without_boolean_schemas;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Schemas of all types, by name.
pub(crate) struct Schemas {
    generator: SchemaGenerator,
    bodies: Map<String, Value>,
}

impl Schemas {
    pub(super) fn new() -> Self {
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

    pub(super) fn response<T: JsonSchema>(&mut self) -> Value {
        self.generator.subschema_for::<T>().to_value()
    }

    /// Reference to the type of a response; `None` if it is no JSON.
    pub(super) fn of(&mut self, response: &ResponseSchema) -> Option<Value> {
        match response {
            ResponseSchema::Empty
            | ResponseSchema::Html
            | ResponseSchema::Csv
            | ResponseSchema::Stream(_) => None,
            ResponseSchema::Json(schema) => Some(schema(&mut self.generator).to_value()),
        }
    }

    /// Reference to the type of a body.
    pub(super) fn body(&mut self, name: &str, schema: &Value) -> Value {
        self.bodies.insert(name.to_owned(), schema.clone());
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }

    pub(super) fn finished(mut self) -> Value {
        let mut all = self.generator.take_definitions(true);
        for (name, body) in self.bodies {
            let body = definitions::lift(body, &mut all);
            all.insert(name, body);
        }
        all.into()
    }
}
