//! Schemas of destinations, one for each type: made from the fields that the catalog checks.
//!
//! What is sent for a new export, what is sent to change one, and what is answered differ in what
//! is required, what may be null and whether there are secrets.

use crate::plain_text::{ANY, TEXT};
use crate::schema::CHECKED_LATER;
use millrace_catalog::{
    DestinationField, DestinationSpec, DestinationType, FILE_FORMATS, FieldKind, NeededWhen, Sample,
};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// The longest text, in characters, as the catalog takes it.
const TEXT_CHARS_MAX: u32 = 20_000;
/// The most texts of a list.
const LIST_MAX: u32 = 1_000;

/// Side that a destination is seen from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Sent for a new export.
    New,
    /// Sent to change one: what is not there stays.
    Change,
    /// Answered: no secrets.
    Answer,
}

impl Direction {
    fn destination(self, kind: &str) -> String {
        match self {
            Self::New => format!("New{kind}Destination"),
            Self::Change => format!("Patch{kind}Destination"),
            Self::Answer => format!("{kind}Destination"),
        }
    }

    fn config(self, kind: &str) -> String {
        match self {
            Self::New => format!("{kind}Config"),
            Self::Change => format!("Patch{kind}Config"),
            Self::Answer => format!("{kind}PublicConfig"),
        }
    }
}

/// The schema of a destination: one alternative for each type.
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
            "description": "More of the type that the export has.",
            "type": "object",
            "properties": { "config": {
                "description": "Fields of the type; those that are not named stay, null takes one away.",
                "type": "object",
            } },
            "not": { "required": ["type"] },
        });
        alternatives.push(defined(generator, "PatchSameDestination".to_owned(), same));
        return written(json!({
            "description": "Where an export goes from now on. Another type than before starts from nothing. Secrets \
                that are not named stay, unless another field says that they go elsewhere: then they must be given \
                again. Fields that go together must be together afterwards.",
            "oneOf": alternatives,
        }));
    }
    let description = match direction {
        Direction::New => {
            "Where a new export goes. Fields that the type does not have are ignored."
        }
        _ => "Where an export goes, without its secrets.",
    };
    written(json!({
        "description": description,
        "oneOf": alternatives,
        "discriminator": { "propertyName": "type", "mapping": mapping },
    }))
}

/// A schema that is an object.
fn written(schema: Value) -> Schema {
    Schema::try_from(schema).unwrap_or_default()
}

/// A reference to a schema with a name of its own.
fn defined(generator: &mut SchemaGenerator, name: String, schema: Value) -> Value {
    let reference = format!("#{}/{name}", generator.settings().definitions_path);
    generator.definitions_mut().insert(name, schema);
    json!({ "$ref": reference })
}

fn destination(kind: DestinationType, direction: Direction, config: &Value) -> Value {
    let spec = DestinationSpec::of(kind);
    let mut required = vec!["type"];
    let needs_config = spec.fields().any(|field| field.is_required);
    if direction == Direction::Answer || (direction == Direction::New && needs_config) {
        required.push("config");
    }
    let mut schema = json!({
        "description": spec.about,
        "type": "object",
        "properties": {
            "type": { "type": "string", "const": kind.name() },
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
    let fields = fields.filter(|field| !(field.is_secret && direction == Direction::Answer));
    let properties: Map<String, Value> = fields
        .map(|field| (field.name.to_owned(), property(field, direction)))
        .collect();
    let mut schema = json!({ "type": "object", "properties": properties });
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
                // One that is not given has its default.
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
    // The catalog says which other field needs it.
    set(schema, CHECKED_LATER, json!(true));
}

fn property(field: &DestinationField, direction: Direction) -> Value {
    let is_sent = direction != Direction::Answer;
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
    // Keys have lines. Of events in a list it is asked which they are, and events may be called anything.
    if is_sent && (field.is_secret || field.kind == FieldKind::TextList) {
        let texts = match schema.get_mut("items") {
            Some(items) => items,
            None => &mut schema,
        };
        set(texts, TEXT, json!(ANY));
    }
    schema
}

/// A value of a kind. Numbers and truths may be sent as texts, which existing clients do.
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

/// A choice that the catalog tells more about.
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
