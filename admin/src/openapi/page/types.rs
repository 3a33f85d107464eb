//! Sections of the page for types: objects with their fields, and objects with several variants
//! that one field tells apart, with the fields and an example of each.

use super::fields::{Field, of_object};
use super::kinds::has_variants;
use super::lookup::{items, resolved, text};
use super::markdown;
use serde_json::Value;
use std::collections::BTreeMap;

/// Type of the document.
pub(super) struct Type {
    /// Name of the type, and its anchor on the page.
    pub(super) name: String,
    /// Description as HTML.
    pub(super) description: String,
    /// Fields of the type; none if it has variants.
    pub(super) fields: Vec<Field>,
    pub(super) variants: Vec<Variant>,
}

/// One variant of a type.
pub(super) struct Variant {
    pub(super) name: String,
    /// Description as HTML.
    pub(super) description: String,
    /// Fields of the variant's `config`.
    pub(super) fields: Vec<Field>,
    /// A complete example, as JSON.
    pub(super) example: String,
}

/// Types at some anchors, and those that they have in turn; sorted, without duplicates.
pub(super) fn at(document: &Value, anchors: impl Iterator<Item = String>) -> Vec<Type> {
    let mut waiting: Vec<String> = anchors.collect();
    let mut found: BTreeMap<String, Type> = BTreeMap::new();
    while let Some(name) = waiting.pop() {
        if found.contains_key(&name) {
            continue;
        }
        let Some(schema) = document.pointer(&format!("/components/schemas/{name}")) else {
            continue;
        };
        let shown = describe(document, name.clone(), schema);
        let inner = shown.fields.iter();
        waiting.extend(inner.filter_map(|field| field.more.clone()));
        found.insert(name, shown);
    }
    found.into_values().collect()
}

fn describe(document: &Value, name: String, schema: &Value) -> Type {
    let variants = match has_variants(document, schema) {
        true => items(schema, "/oneOf")
            .map(|one| variant(document, resolved(document, one)))
            .collect(),
        false => Vec::new(),
    };
    Type {
        name,
        description: markdown::blocks(&text(schema, "/description")),
        fields: of_object(document, schema),
        variants,
    }
}

fn variant(document: &Value, schema: &Value) -> Variant {
    let config = schema
        .pointer("/properties/config")
        .map(|it| resolved(document, it));
    let example = items(schema, "/examples").next();
    let example = example.and_then(|example| serde_json::to_string_pretty(example).ok());
    Variant {
        name: text(schema, "/properties/type/const"),
        description: markdown::inline(&text(schema, "/description")),
        fields: config
            .map(|config| of_object(document, config))
            .unwrap_or_default(),
        example: example.unwrap_or_default(),
    }
}

/// The object that a body or an answer is, or that its list or its page has, with the words that
/// lead to it; `None` for other JSON.
pub(super) fn object<'d>(document: &'d Value, schema: &'d Value) -> Option<(&'d Value, String)> {
    let schema = resolved(document, schema);
    if let Some(rows) = schema.pointer("/properties/results/items") {
        let is_page = ["count", "next", "previous"]
            .iter()
            .all(|name| schema.pointer(&format!("/properties/{name}")).is_some());
        let rows = resolved(document, rows);
        let only = schema.get("properties").and_then(Value::as_object);
        if is_page && only.is_some_and(|fields| fields.len() == 4) {
            return Some((rows, "A page; each item of its results has".to_owned()));
        }
    }
    if schema.get("properties").is_some() {
        return Some((schema, String::new()));
    }
    if let Some(item) = schema.get("items") {
        return Some((resolved(document, item), "A list; each item has".to_owned()));
    }
    let mut alternatives = items(schema, "/anyOf").map(|one| resolved(document, one));
    let one = alternatives.find(|one| one.get("properties").is_some())?;
    Some((one, "One object, or a list of such; each has".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document() -> Value {
        let thing = |name: &str| json!({ "type": "object", "properties": { name: {} } });
        let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
        let page = json!({ "properties": {
            "count": {}, "next": {}, "previous": {}, "results": { "items": reference("Role") },
        } });
        json!({ "components": { "schemas": {
            "Role": { "properties": { "user": reference("User") } },
            "User": thing("name"),
            "Page": page,
            "NewTarget": { "oneOf": [thing("a"), thing("b")] },
            "PatchTarget": { "oneOf": [thing("a"), thing("b")] },
        } } })
    }

    #[test]
    fn types_within_types_are_shown_as_well() {
        let document = document();
        let shown = at(
            &document,
            ["Role".to_owned(), "NewTarget".to_owned()].into_iter(),
        );
        let names: Vec<&str> = shown.iter().map(|shown| shown.name.as_str()).collect();
        assert_eq!(names, ["NewTarget", "Role", "User"]);
        assert_eq!(shown[0].variants.len(), 2);
    }

    #[test]
    fn the_rows_of_a_page_are_its_object() {
        let document = document();
        let page = json!({ "$ref": "#/components/schemas/Page" });
        let (rows, words) = object(&document, &page).unwrap();
        assert!(rows.pointer("/properties/user").is_some());
        assert!(words.starts_with("A page"));
    }
}
