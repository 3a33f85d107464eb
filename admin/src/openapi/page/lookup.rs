//! Look-ups in the document.

use serde_json::Value;

/// Value that a `$ref` leads to, or the value itself.
pub(in crate::openapi) fn resolved<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    let target = value.get("$ref").and_then(Value::as_str);
    let target = target.and_then(|target| document.pointer(target.strip_prefix('#')?));
    target.unwrap_or(value)
}

/// Text at a place; empty if there is none.
pub(super) fn text(value: &Value, pointer: &str) -> String {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default().to_owned()
}

/// Fields of the object at a place; none if there is no object.
pub(super) fn entries<'v>(
    value: &'v Value,
    pointer: &str,
) -> impl Iterator<Item = (&'v String, &'v Value)> {
    value
        .pointer(pointer)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

/// Items of the list at a place; none if there is no list.
pub(super) fn items<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// Name of the type that a `$ref` leads to.
pub(super) fn referenced(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.rsplit('/').next()
}
