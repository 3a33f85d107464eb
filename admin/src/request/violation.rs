//! Translation of schema violations into the one error that the client sees.

use crate::control_characters;
use crate::error::ApiError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::paths::LocationSegment;
use jsonschema::{JsonType, ValidationError, Validator};
use serde_json::{Map, Value};

/// Most choices that an error lists.
const CHOICES_MAX: usize = 20;
/// Most letters by which a name may differ and count as a misspelling.
const MISSPELT_MAX: usize = 2;
/// Shortest name that is compared for misspellings; shorter ones are alike by chance.
const NAME_BYTES_MIN: usize = 5;

/// First violation of a body's schema, if there is one. Stops there, and before the items of a
/// list that is too long: a body can have a million errors.
pub(crate) fn first(schema: &Value, validator: &Validator, body: &Value) -> Option<ApiError> {
    if let Some(error) = too_long(schema, schema, body, &[]) {
        return Some(error);
    }
    let null_character = null_character(body).map(|path| {
        let detail = "This has a null character, which no text may have. Omit it.";
        error("invalid_input", &path, detail.to_owned())
    });
    null_character.or_else(|| {
        validator
            .validate(body)
            .err()
            .map(|found| api_error(&found))
    })
}

/// Error for the first list that is longer than its schema allows.
fn too_long(root: &Value, schema: &Value, value: &Value, path: &[String]) -> Option<ApiError> {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let named = root.pointer(name.trim_start_matches('#'))?;
        return too_long(root, named, value, path);
    }
    let alternatives = ["anyOf", "oneOf", "allOf"].into_iter();
    let alternatives = alternatives.filter_map(|word| schema.get(word)?.as_array());
    let mut alternatives = alternatives.flatten();
    if let Some(error) = alternatives.find_map(|inner| too_long(root, inner, value, path)) {
        return Some(error);
    }
    let below = |step: String, schema: &Value, value: &Value| {
        let path: Vec<String> = path.iter().cloned().chain([step]).collect();
        too_long(root, schema, value, &path)
    };
    match value {
        Value::Array(items) => {
            let limit = schema.get("maxItems").and_then(Value::as_u64);
            if let Some(limit) = limit.filter(|limit| items.len() as u64 > *limit) {
                let detail = format!("This may have {limit} items at most.");
                return Some(error("max_length", path, detail));
            }
            let schema = schema.get("items")?;
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| below(index.to_string(), schema, item))
        }
        Value::Object(fields) => {
            let properties = schema.get("properties")?.as_object()?;
            let mut known = properties.iter();
            known.find_map(|(name, schema)| below(name.clone(), schema, fields.get(name)?))
        }
        _ => None,
    }
}

fn api_error(found: &ValidationError<'_>) -> ApiError {
    let mut path = segments(found);
    let instance = found.instance().as_ref();
    let (code, detail) = match found.kind() {
        Kind::AnyOf { context }
        | Kind::OneOfNotValid { context }
        | Kind::OneOfMultipleValid { context } => match intended_error(context, path.len()) {
            Some(inner) => match kinds(context, inner) {
                Some(kinds) => {
                    path = segments(inner);
                    not_a_choice(inner.instance().as_ref(), &kinds)
                }
                None => return api_error(inner),
            },
            None => alternatives(context, instance),
        },
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            path.push(name.to_owned());
            ("required", required(name, instance))
        }
        Kind::Type { kind } => mistyped(kind, instance),
        Kind::Enum { options } => {
            let options = options.as_array().map_or(&[][..], Vec::as_slice);
            not_a_choice(instance, &options.iter().collect::<Vec<_>>())
        }
        Kind::Constant { expected_value } => not_a_choice(instance, &[&**expected_value]),
        Kind::MinLength { .. } | Kind::Pattern { .. } | Kind::Format { .. }
            if is_blank(instance) =>
        {
            ("blank", "This field may not be blank.".to_owned())
        }
        Kind::MaxLength { limit } => (
            "max_length",
            format!("This may have {limit} characters at most."),
        ),
        Kind::MaxItems { limit } => (
            "max_length",
            format!("This may have {limit} items at most."),
        ),
        Kind::Minimum { limit } => ("min_value", format!("This must be {limit} or more.")),
        Kind::ExclusiveMinimum { limit } => {
            ("min_value", format!("This must be more than {limit}."))
        }
        Kind::Maximum { limit } => ("max_value", format!("This must be {limit} or less.")),
        Kind::ExclusiveMaximum { limit } => {
            ("max_value", format!("This must be less than {limit}."))
        }
        Kind::Format { format } if format == "date-time" => (
            "invalid_input",
            "Give a time with a zone in ISO 8601, such as 2025-03-01T10:00:00Z.".to_owned(),
        ),
        Kind::Format { format } => ("invalid_input", format!("This is not a valid {format}.")),
        Kind::Pattern { .. } => {
            let api_error = instance.as_str().and_then(control_characters::explain);
            ("invalid_input", api_error.unwrap_or_else(unusable))
        }
        _ => ("invalid_input", unusable()),
    };
    error(code, &path, detail)
}

/// Message for a missing field. As unknown fields are ignored, a likely misspelling is named.
fn required(name: &str, instance: &Value) -> String {
    let is_near = |sent: &&String| {
        name.len() >= NAME_BYTES_MIN
            && sent.len().abs_diff(name.len()) <= MISSPELT_MAX
            && strsim::osa_distance(sent, name) <= MISSPELT_MAX
    };
    let mut fields = instance.as_object().into_iter().flat_map(Map::keys);
    match fields.find(is_near) {
        None => "This field is required.".to_owned(),
        Some(sent) => format!("This field is required. Is {sent:?} a misspelling of it?"),
    }
}

type Alternative = Vec<ValidationError<'static>>;

/// Error of the alternative that the client meant: the one whose kind is named, or else whose
/// outer type matches. The error inside it is what the client needs.
fn intended_error(alternatives: &[Alternative], depth: usize) -> Option<&ValidationError<'static>> {
    let of_kind = of_a_kind(alternatives, depth);
    let complete = || {
        alternatives
            .iter()
            .filter(|it| missing(it, depth).is_none())
    };
    of_kind
        .or_else(|| complete().find_map(|errors| inner_error(errors, depth)))
        .or_else(|| {
            alternatives
                .iter()
                .find_map(|errors| inner_error(errors, depth))
        })
}

/// First error of an alternative whose outer type matches.
fn inner_error(errors: &Alternative, depth: usize) -> Option<&ValidationError<'static>> {
    let outer = |error: &ValidationError<'_>| {
        let kind = error.kind();
        let is_outer = matches!(
            kind,
            Kind::Type { .. } | Kind::Enum { .. } | Kind::Constant { .. }
        );
        is_outer && segments(error).len() == depth
    };
    let first = errors.first()?;
    (!errors.iter().any(outer)).then_some(first)
}

/// Error for a required field of an alternative that is missing.
fn missing(errors: &Alternative, depth: usize) -> Option<&ValidationError<'static>> {
    let mut errors = errors.iter();
    errors.find(|error| {
        matches!(error.kind(), Kind::Required { .. }) && segments(error).len() == depth
    })
}

/// Error among alternatives that a constant in one of their fields tells apart: the error inside
/// the alternative whose constant was sent, or that the constant is unknown, or missing.
fn of_a_kind(alternatives: &[Alternative], depth: usize) -> Option<&ValidationError<'static>> {
    let is_other = |error: &&ValidationError<'_>| match error.kind() {
        Kind::Constant { .. } => segments(error).len() == depth + 1,
        _ => false,
    };
    let is_excluded = |error: &ValidationError<'_>| matches!(error.kind(), Kind::Not { .. });
    let Some(other) = alternatives.iter().flatten().find(is_other) else {
        let all = alternatives.iter().map(|errors| missing(errors, depth));
        let all: Option<Vec<_>> = all.collect();
        return all?.first().copied();
    };
    let fits = |errors: &&Alternative| !errors.iter().any(|it| is_other(&it) || is_excluded(it));
    let fitting = alternatives.iter().find(fits);
    fitting.map_or(Some(other), |errors| errors.first())
}

/// Known values of the field that tells alternatives apart, if that field is wrong.
fn kinds<'a>(
    alternatives: &'a [Alternative],
    wrong: &ValidationError<'_>,
) -> Option<Vec<&'a Value>> {
    let constant = |error: &'a ValidationError<'static>| match error.kind() {
        Kind::Constant { expected_value } => Some(&**expected_value),
        _ => None,
    };
    let is_it = matches!(wrong.kind(), Kind::Constant { .. });
    is_it.then(|| {
        let errors = alternatives.iter().flatten();
        let same = errors.filter(|error| error.instance_path() == wrong.instance_path());
        same.filter_map(constant).collect()
    })
}

/// Code and message for a value whose type none of the alternatives has.
fn alternatives(
    context: &[Vec<ValidationError<'static>>],
    instance: &Value,
) -> (&'static str, String) {
    let errors = || context.iter().flatten();
    if instance.is_null() {
        return null();
    }
    let is_choice = |errors: &Vec<ValidationError<'static>>| {
        let choices = |kind: &Kind| matches!(kind, Kind::Enum { .. } | Kind::Constant { .. });
        let types = |kind: &Kind| matches!(kind, Kind::Type { .. });
        errors.iter().any(|error| choices(error.kind()))
            && !errors.iter().any(|error| types(error.kind()))
    };
    if context.iter().any(is_choice) {
        let choices = errors().flat_map(|error| match error.kind() {
            Kind::Enum { options } => options.as_array().into_iter().flatten().collect(),
            Kind::Constant { expected_value } => vec![&**expected_value],
            _ => Vec::new(),
        });
        return not_a_choice(instance, &choices.collect::<Vec<_>>());
    }
    let kinds = errors().filter_map(|error| match error.kind() {
        Kind::Type { kind } => Some(kind),
        _ => None,
    });
    let wants_list = kinds.clone().any(|kind| allows(kind, JsonType::Array));
    if wants_list && !instance.is_object() {
        return not_a_list();
    }
    let detail = "This has none of the types that it may have.";
    ("invalid_input", detail.to_owned())
}

fn mistyped(kind: &TypeKind, instance: &Value) -> (&'static str, String) {
    if instance.is_null() {
        return null();
    }
    if allows(kind, JsonType::Array) {
        return not_a_list();
    }
    let expected = match kind {
        TypeKind::Single(one) => one.to_string(),
        TypeKind::Multiple(several) => {
            let names: Vec<String> = several.iter().map(|one| one.to_string()).collect();
            names.join(" or ")
        }
    };
    ("invalid_input", format!("This must be of type {expected}."))
}

fn allows(kind: &TypeKind, wanted: JsonType) -> bool {
    match kind {
        TypeKind::Single(one) => *one == wanted,
        TypeKind::Multiple(several) => several.contains(wanted),
    }
}

fn unusable() -> String {
    "This value cannot be used here.".to_owned()
}

fn null() -> (&'static str, String) {
    ("null", "This field may not be null.".to_owned())
}

fn not_a_list() -> (&'static str, String) {
    ("not_a_list", "Give a list of items.".to_owned())
}

fn not_a_choice(instance: &Value, choices: &[&Value]) -> (&'static str, String) {
    if instance.is_null() {
        return null();
    }
    let named = choices.iter().filter_map(|choice| match choice {
        Value::String(text) if text.is_empty() => Some("an empty text".to_owned()),
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    });
    let named: Vec<String> = named.take(CHOICES_MAX + 1).collect();
    let detail = match named.as_slice() {
        [] => "This is none of the values that there are; see /api/docs/.".to_owned(),
        [one] => format!("This must be {one}."),
        [firsts @ .., last] if firsts.len() < CHOICES_MAX => {
            format!("Give {} or {last}.", firsts.join(", "))
        }
        [firsts @ .., _] => format!("Give {} or another; see /api/docs/.", firsts.join(", ")),
    };
    ("invalid_choice", detail)
}

fn is_blank(instance: &Value) -> bool {
    instance.as_str().is_some_and(|text| text.trim().is_empty())
}

fn segments(error: &ValidationError<'_>) -> Vec<String> {
    let segment = |segment: LocationSegment<'_>| match segment {
        LocationSegment::Property(name) => name.into_owned(),
        LocationSegment::Index(index) => index.to_string(),
    };
    error.instance_path().iter().map(segment).collect()
}

/// Path to a text with a null character, which PostgreSQL cannot store.
fn null_character(value: &Value) -> Option<Vec<String>> {
    let below = |name: String, value: &Value| {
        let mut path = null_character(value)?;
        path.insert(0, name);
        Some(path)
    };
    match value {
        Value::String(text) => text.contains('\0').then(Vec::new),
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| below(index.to_string(), item))
        }
        Value::Object(fields) => fields.iter().find_map(|(name, field)| {
            if name.contains('\0') {
                return Some(Vec::new());
            }
            below(name.clone(), field)
        }),
        _ => None,
    }
}

fn error(code: &'static str, path: &[String], detail: String) -> ApiError {
    let attr = (!path.is_empty()).then(|| path.join("__"));
    ApiError::invalid(code, attr.as_deref(), detail)
}
