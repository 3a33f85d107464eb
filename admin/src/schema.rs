//! The schema of a request's body: published in the document, and what bodies are checked by.

use crate::plain_text::{NoTags, PlainTexts};
use crate::timestamp;
use jsonschema::{Draft, Validator};
use schemars::generate::SchemaSettings;
use schemars::transform::{ReplaceBoolSchemas, Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// Marks a choice, or fields that go together, which are published and not checked here: who takes the body
/// refuses it, as only they can say what is wrong, or blame another field.
pub(crate) const CHECKED_LATER: &str = "x-checked-later";

/// What a body must look like.
#[derive(Clone)]
pub(crate) struct BodySchema {
    /// Its name in the document.
    pub(crate) name: String,
    /// JSON Schema 2020-12, complete in itself.
    pub(crate) schema: Value,
    /// Whether an empty body will do.
    pub(crate) is_optional: bool,
    /// The same in effect, compiled; else what is wrong with it, which a test would find.
    pub(crate) validator: Arc<Result<Validator, String>>,
}

impl BodySchema {
    /// Of a type.
    pub(crate) fn of<T: JsonSchema>() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| settings.meta_schema = None);
        let generator = settings
            .with_transform(IntegerRanges)
            .with_transform(PlainTexts)
            .with_transform(without_boolean_schemas())
            .into_generator();
        let schema = generator.into_root_schema_for::<T>().to_value();
        Self::compiled(T::schema_name().into_owned(), schema)
    }

    /// The same with fields that must be there: for `PUT`.
    pub(crate) fn requiring(&self, fields: &[&str]) -> Self {
        let name = self.name.strip_prefix("Patch").unwrap_or(&self.name);
        let name = format!("Put{name}");
        let mut schema = self.schema.clone();
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("title".to_owned(), json!(name));
            if !fields.is_empty() {
                schema.insert("required".to_owned(), json!(fields));
            }
        }
        Self::compiled(name, schema)
    }

    fn compiled(name: String, schema: Value) -> Self {
        let checked = as_checked(schema.clone());
        let schema = without_marks(schema);
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .should_validate_formats(true)
            .with_format("date-time", |text: &str| timestamp::parse(text).is_some())
            .build(&checked)
            .map_err(|error| error.to_string());
        let optional = json!({});
        let is_optional = match &validator {
            Ok(validator) => validator.is_valid(&optional),
            Err(_) => false,
        };
        Self {
            name,
            schema,
            is_optional,
            validator: Arc::new(validator),
        }
    }
}

/// Writes `{}` for "anything" instead of `true`, which generators of clients do not expect.
pub(crate) fn without_boolean_schemas() -> ReplaceBoolSchemas {
    let mut transform = ReplaceBoolSchemas::default();
    transform.skip_additional_properties = true;
    transform
}

/// The schema as bodies are checked by it. A value of another type is no choice either, and is to be blamed for
/// that: where the values are listed, their type goes.
fn as_checked(schema: Value) -> Value {
    match Schema::try_from(schema) {
        Ok(mut schema) => {
            ChoicesOfAnyType.transform(&mut schema);
            NoTags.transform(&mut schema);
            schema.to_value()
        }
        // It cannot be compiled either, and that says why.
        Err(error) => json!({ "type": error.to_string() }),
    }
}

/// The schema as it is published: what is checked where is our own affair.
fn without_marks(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(fields) => {
            fields.remove(CHECKED_LATER);
            fields
                .values_mut()
                .for_each(|field| *field = without_marks(field.take()));
        }
        Value::Array(items) => {
            items
                .iter_mut()
                .for_each(|item| *item = without_marks(item.take()));
        }
        _ => {}
    }
    schema
}

#[derive(Clone, Debug)]
struct ChoicesOfAnyType;

impl Transform for ChoicesOfAnyType {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        if schema.remove(CHECKED_LATER).is_some() {
            for keyword in ["enum", "const", "dependentRequired", "allOf"] {
                schema.remove(keyword);
            }
        } else if schema.get("enum").or(schema.get("const")).is_some() {
            schema.remove("type");
        }
    }
}

/// A body that nothing is read of, JSON as it must be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nothing;

impl<'de> Deserialize<'de> for Nothing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl JsonSchema for Nothing {
    fn schema_name() -> Cow<'static, str> {
        "Nothing".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({ "description": "Nothing is read of it." })
    }
}

/// States what fits into Rust's integers, so that what the schema lets pass can be read.
#[derive(Clone, Debug)]
struct IntegerRanges;

impl Transform for IntegerRanges {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let range = match schema.get("format").and_then(Value::as_str) {
            Some("int16") => (json!(i16::MIN), json!(i16::MAX)),
            Some("int32") => (json!(i32::MIN), json!(i32::MAX)),
            Some("int64") => (json!(i64::MIN), json!(i64::MAX)),
            Some("uint32") => (json!(0), json!(u32::MAX)),
            Some("uint64") => (json!(0), json!(u64::MAX)),
            _ => return,
        };
        for (bound, value) in [("minimum", range.0), ("maximum", range.1)] {
            if schema.get(bound).is_none() {
                schema.insert(bound.to_owned(), value);
            }
        }
    }
}
