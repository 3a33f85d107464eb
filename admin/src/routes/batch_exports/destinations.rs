//! Schemas of destinations, one for each type, made from the fields that the catalog checks.
//!
//! The schemas for creating an export, for changing one, and of responses differ in required
//! fields, nullable fields and secrets.

use crate::control_characters::TEXT;
use crate::schema::CHECKED_LATER;
use millrace_catalog::DestinationType;
use millrace_catalog::text::ANY;
use millrace_exports::{
    DestinationField, DestinationSpec, FILE_FORMATS, FieldKind, NeededWhen, Sample,
};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Longest text that the catalog accepts, in characters.
const TEXT_CHARS_MAX: u32 = 20_000;
/// Most texts in a list.
const LIST_MAX: u32 = 1_000;

/// Use of a destination's schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Request that creates an export.
    New,
    /// Request that changes an export: fields that are not sent keep their values.
    Change,
    /// Response: without secrets.
    Response,
}

impl Direction {
    fn destination(self, kind: &str) -> String {
        match self {
            Self::New => format!("New{kind}Destination"),
            Self::Change => format!("Patch{kind}Destination"),
            Self::Response => format!("{kind}Destination"),
        }
    }

    fn config(self, kind: &str) -> String {
        match self {
            Self::New => format!("{kind}Config"),
            Self::Change => format!("Patch{kind}Config"),
            Self::Response => format!("{kind}PublicConfig"),
        }
    }
}

/// Schema of a destination: one alternative for each type.
pub(super) fn schema(generator: &mut SchemaGenerator, direction: Direction) -> Schema {
    let (mut alternatives, mut mapping) = (Vec::new(), Map::new());
    for kind in DestinationType::all() {
        let name = kind.name();
        let config = config(DestinationSpec::of(kind), direction);
        let config = defined(generator, direction.config(&name), config);
        let destination = destination(kind, direction, &config);
        let destination = defined(generator, direction.destination(&name), destination);
        mapping.insert(name, destination.get("$ref").cloned().unwrap_or_default());
        alternatives.push(destination);
    }
    if direction == Direction::Change {
        let same = json!({
            "description": "Changes of fields of the type that the export has.",
            "type": "object",
            "properties": { "config": {
                "description": "Fields of the type; those that are not named stay, null removes one.",
                "type": "object",
            } },
            "not": { "required": ["type"] },
        });
        alternatives.push(defined(generator, "PatchSameDestination".to_owned(), same));
        return written(json!({
            "description": "Changes of an export's destination. Another type than before starts from an \
                            empty configuration. Secrets that are not named stay, unless the change sends them \
                            to another host, URL or account: then they must be given again. Fields that \
                            require each other must all be set afterwards.",
            "oneOf": alternatives,
        }));
    }
    let description = match direction {
        Direction::New => {
            "Destination of a new export. Fields that the type does not have are ignored."
        }
        _ => "Destination of an export, without its secrets.",
    };
    written(json!({
        "description": description,
        "oneOf": alternatives,
        "discriminator": { "propertyName": "type", "mapping": mapping },
    }))
}

/// Converts a JSON object into a schema.
fn written(schema: Value) -> Schema {
    Schema::try_from(schema).unwrap_or_default()
}

/// Adds a named schema to the definitions and returns a reference to it.
fn defined(generator: &mut SchemaGenerator, name: String, schema: Value) -> Value {
    let reference = format!("#{}/{name}", generator.settings().definitions_path);
    generator.definitions_mut().insert(name, schema);
    json!({ "$ref": reference })
}

fn destination(kind: DestinationType, direction: Direction, config: &Value) -> Value {
    let spec = DestinationSpec::of(kind);
    let mut required = vec!["type"];
    let needs_config = spec.fields().any(|field| field.is_required);
    if direction == Direction::Response || (direction == Direction::New && needs_config) {
        required.push("config");
    }
    let mut schema = json!({
        "description": spec.about,
        "type": "object",
        "properties": {
            "type": {
                "description": "Type of the destination.",
                "type": "string",
                "const": kind.name(),
            },
            "config": config,
        },
        "required": required,
    });
    if direction == Direction::New {
        let example = json!({ "type": kind.name(), "config": spec.example() });
        set(&mut schema, "examples", json!([example]));
    }
    schema
}

fn config(spec: &DestinationSpec, direction: Direction) -> Value {
    let fields = spec.fields();
    let fields = fields.filter(|field| !(field.is_secret && direction == Direction::Response));
    let properties: Map<String, Value> = fields
        .map(|field| (field.name.to_owned(), property(field, direction)))
        .collect();
    let description = match direction {
        Direction::New => "Fields of the type.",
        Direction::Change => "Fields of the type that change; null removes one.",
        Direction::Response => "Fields of the type, without its secrets.",
    };
    let mut schema = json!({
        "description": description,
        "type": "object",
        "properties": properties,
    });
    if direction == Direction::New {
        let required = spec.fields().filter(|field| field.is_required);
        let required: Vec<&str> = required.map(|field| field.name).collect();
        if !required.is_empty() {
            set(&mut schema, "required", json!(required));
        }
        set_needs(&mut schema, spec);
    }
    schema
}

fn set_needs(schema: &mut Value, spec: &DestinationSpec) {
    let (mut dependent, mut conditions) = (Map::new(), Vec::new());
    for need in spec.needs {
        match (need.when, need.value) {
            (NeededWhen::Given(other), None) => {
                dependent.insert(other.to_owned(), json!([need.field]));
            }
            (NeededWhen::Given(other), Some(value)) => conditions.push(json!({
                "if": { "properties": { other: { "type": "string" } }, "required": [other] },
                "then": {
                    "properties": { need.field: { "const": value } },
                    "required": [need.field],
                },
            })),
            (NeededWhen::Is(other, value), _) => {
                let mut is_so = json!({ "properties": { other: { "const": value } } });
                let is_default = |field: &'static DestinationField| {
                    field.name == other && field.default == Some(Sample::Text(value))
                };
                // A missing field has its default.
                if !spec.fields().any(is_default) {
                    set(&mut is_so, "required", json!([other]));
                }
                conditions.push(json!({ "if": is_so, "then": { "required": [need.field] } }));
            }
        }
    }
    if !dependent.is_empty() {
        set(schema, "dependentRequired", dependent.into());
    }
    if !conditions.is_empty() {
        set(schema, "allOf", conditions.into());
    }
    // The catalog's message names the field that requires the other.
    set(schema, CHECKED_LATER, json!(true));
}

fn property(field: &DestinationField, direction: Direction) -> Value {
    let is_sent = direction != Direction::Response;
    let mut schema = value(field.kind, is_sent);
    if is_sent && !field.is_required {
        let types = schema.get("type").cloned().unwrap_or_default();
        let mut types = match types {
            Value::Array(types) => types,
            one => vec![one],
        };
        types.push(json!("null"));
        set(&mut schema, "type", types.into());
        if let Some(Value::Array(choices)) = schema.get_mut("enum") {
            choices.push(Value::Null);
        }
    }
    let is_text = !matches!(
        field.kind,
        FieldKind::Integer { .. } | FieldKind::Boolean | FieldKind::TextList
    );
    if is_sent && is_text && (field.is_required || field.is_secret) {
        set(&mut schema, "pattern", json!(r"\S"));
    }
    set(&mut schema, "description", json!(field.about));
    set(&mut schema, "examples", json!([Value::from(field.example)]));
    if let Some(default) = field.default {
        set(&mut schema, "default", default.into());
    }
    if field.is_secret {
        set(&mut schema, "writeOnly", json!(true));
    }
    // Keys have several lines. Lists name events, which may have any characters in their names.
    if is_sent && (field.is_secret || field.kind == FieldKind::TextList) {
        let texts = match schema.get_mut("items") {
            Some(items) => items,
            None => &mut schema,
        };
        set(texts, TEXT, json!(ANY));
    }
    schema
}

/// Schema of a value. Numbers and booleans may be sent as texts, as existing clients do.
fn value(kind: FieldKind, is_sent: bool) -> Value {
    let or_text = |own: &str| match is_sent {
        true => json!([own, "string"]),
        false => json!(own),
    };
    let formats = || FILE_FORMATS.iter();
    match kind {
        FieldKind::Integer { min, max } => {
            json!({ "type": or_text("integer"), "minimum": min, "maximum": max })
        }
        FieldKind::Boolean => json!({ "type": or_text("boolean") }),
        FieldKind::TextList => json!({
            "type": "array", "maxItems": LIST_MAX,
            "items": { "type": "string", "maxLength": TEXT_CHARS_MAX },
        }),
        FieldKind::Choice(choices) => json!({ "type": "string", "enum": choices }),
        FieldKind::Format => {
            let names: Vec<&str> = formats().map(|(name, _)| *name).collect();
            choice_of(&names, is_sent)
        }
        FieldKind::Compression => {
            let mut names: Vec<&str> = Vec::new();
            for name in formats().flat_map(|(_, compressions)| *compressions) {
                if !names.contains(name) {
                    names.push(name);
                }
            }
            choice_of(&names, is_sent)
        }
        FieldKind::Text
        | FieldKind::Url
        | FieldKind::Host
        | FieldKind::HostPart
        | FieldKind::UrlPath
        | FieldKind::Path
        | FieldKind::ServiceAccount
        | FieldKind::AzureConnection => {
            json!({ "type": "string", "maxLength": TEXT_CHARS_MAX })
        }
    }
}

/// Schema of a choice that the catalog checks, with a better message.
fn choice_of(names: &[&str], is_sent: bool) -> Value {
    let mut schema = json!({ "type": "string", "enum": names });
    if is_sent {
        set(&mut schema, CHECKED_LATER, json!(true));
    }
    schema
}

fn set(schema: &mut Value, keyword: &str, value: Value) {
    if let Value::Object(schema) = schema {
        schema.insert(keyword.to_owned(), value);
    }
}
