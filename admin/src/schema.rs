//! Schema of a request's body: published in the document, and used to check bodies.

use crate::control_characters::{NoControlCharacters, NoTagCharacters};
use jsonschema::{Draft, Validator};
use millrace_catalog::UtcTime;
use schemars::generate::SchemaSettings;
use schemars::transform::{ReplaceBoolSchemas, Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

/// Schema extension that marks a choice, or fields that require each other, as published but not
/// checked here: the handler refuses them, as it can name the cause or blame another field.
pub(crate) const CHECKED_LATER: &str = "x-checked-later";

/// Keywords that have no effect on an object without fields, except `type` and `required`.
const PLAIN_KEYWORDS: [&str; 8] = [
    "$defs",
    "additionalProperties",
    "description",
    "examples",
    "properties",
    "required",
    "title",
    "type",
];

/// Compiled validator, or why the schema does not compile, which a test would find.
type Compiled = Result<Validator, String>;
/// Validator that its first use compiles: a process uses few of a hundred.
type LazyValidator = LazyLock<Compiled, Box<dyn FnOnce() -> Compiled + Send>>;

/// Schema of a request's body, with its validator.
#[derive(Clone)]
pub(crate) struct BodySchema {
    /// Name of the schema in the document.
    pub(crate) name: String,
    /// JSON Schema 2020-12, complete in itself.
    pub(crate) schema: Value,
    /// True if an empty body is valid.
    pub(crate) is_optional: bool,
    /// Validator of bodies.
    pub(crate) validator: Arc<LazyValidator>,
}

impl BodySchema {
    /// Derives the schema of a type.
    pub(crate) fn of<T: JsonSchema>() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| settings.meta_schema = None);
        let generator = settings
            .with_transform(IntegerRanges)
            .with_transform(NoControlCharacters)
            .with_transform(without_boolean_schemas())
            .into_generator();
        let schema = generator.into_root_schema_for::<T>().to_value();
        Self::named(T::schema_name().into_owned(), schema)
    }

    /// Derives the schema for `PUT`, in which these fields are required.
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
        Self::named(name, schema)
    }

    fn named(name: String, schema: Value) -> Self {
        let marked = schema.clone();
        let schema = without_marks(schema);
        let validator: LazyValidator = LazyLock::new(Box::new(move || compiled(marked)));
        let is_optional = allows_nothing(&schema).unwrap_or_else(|| {
            let validator = (*validator).as_ref();
            validator.is_ok_and(|validator| validator.is_valid(&json!({})))
        });
        Self {
            name,
            schema,
            is_optional,
            validator: Arc::new(validator),
        }
    }
}

/// Compiles a schema with its marks.
fn compiled(marked: Value) -> Compiled {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .should_validate_formats(true)
        .with_format("date-time", |text: &str| UtcTime::parse(text).is_some())
        .build(&as_checked(marked))
        .map_err(|error| error.to_string())
}

/// Tells whether a schema allows an object without fields; `None` if only its validator can.
fn allows_nothing(schema: &Value) -> Option<bool> {
    let schema = schema.as_object()?;
    let mut keywords = schema.keys();
    if !keywords.all(|word| PLAIN_KEYWORDS.contains(&word.as_str()) || word.starts_with("x-")) {
        return None;
    }
    let is_object = match schema.get("type") {
        Some(kind) => kind.as_str()? == "object",
        None => true,
    };
    let required = schema.get("required").and_then(Value::as_array);
    Some(is_object && required.is_none_or(Vec::is_empty))
}

/// Transform that writes `{}` for "anything" instead of `true`, which client generators do not
/// expect.
pub(crate) fn without_boolean_schemas() -> ReplaceBoolSchemas {
    let mut transform = ReplaceBoolSchemas::default();
    transform.skip_additional_properties = true;
    transform
}

/// Schema by which bodies are checked. Where the values are listed, their type is removed: a
/// value of another type is then refused as no valid choice.
fn as_checked(schema: Value) -> Value {
    match Schema::try_from(schema) {
        Ok(mut schema) => {
            ChoicesOfAnyType.transform(&mut schema);
            NoTagCharacters.transform(&mut schema);
            schema.to_value()
        }
        // This does not compile either, and the compiler's message says why.
        Err(error) => json!({ "type": error.to_string() }),
    }
}

/// Schema as it is published, without the marks that only checking needs.
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

/// Body of an action that takes no fields; it must still be JSON.
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
        schemars::json_schema!({ "description": "The body is ignored." })
    }
}

/// Transform that adds the ranges of Rust's integers, so that valid bodies can be deserialized.
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
