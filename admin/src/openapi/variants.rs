//! Things of several kinds, told apart by one of their fields: a table and an example of each kind.

use super::docs::{Field, body, items, kind, paragraphs, resolved, text};
use serde_json::Value;

/// A thing of several kinds.
pub(super) struct Variants {
    /// Where it stands on the page.
    pub(super) id: String,
    /// The heading there.
    pub(super) title: String,
    /// Its kinds.
    pub(super) kinds: Vec<Variant>,
}

/// One kind.
pub(super) struct Variant {
    pub(super) name: String,
    pub(super) description: Vec<String>,
    /// The fields of what is in it.
    pub(super) fields: Vec<Field>,
    /// A complete one, as JSON.
    pub(super) example: String,
}

/// The anchor of a thing of several kinds; `None` if it has one kind.
pub(super) fn anchor(document: &Value, schema: &Value) -> Option<String> {
    let name = schema.get("$ref")?.as_str()?.rsplit('/').next()?;
    let is_one = resolved(document, schema).get("discriminator").is_some();
    is_one.then(|| name.to_owned())
}

/// All that are sent by somebody, by their names.
pub(super) fn of(document: &Value, anchors: impl Iterator<Item = String>) -> Vec<Variants> {
    let mut ids: Vec<String> = anchors.collect();
    ids.sort();
    ids.dedup();
    let variants = ids.into_iter().map(|id| {
        let schema = document.pointer(&format!("/components/schemas/{id}"));
        let kinds = schema
            .into_iter()
            .flat_map(|schema| items(schema, "/oneOf"));
        let kinds = kinds.map(|kind| variant(document, resolved(document, kind)));
        Variants {
            title: words_of_name(&id),
            id,
            kinds: kinds.collect(),
        }
    });
    variants.collect()
}

/// `NewBatchExportDestination` as `New batch export destination`.
fn words_of_name(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
            words.extend(letter.to_lowercase());
        } else {
            words.push(letter);
        }
    }
    words
}

fn variant(document: &Value, schema: &Value) -> Variant {
    let config = schema
        .pointer("/properties/config")
        .map(|it| resolved(document, it));
    let example = items(schema, "/examples").next();
    let example = example.and_then(|example| serde_json::to_string_pretty(example).ok());
    Variant {
        name: text(schema, "/properties/type/const"),
        description: paragraphs(&text(schema, "/description")),
        fields: config
            .map(|config| body(document, config))
            .unwrap_or_default(),
        example: example.unwrap_or_default(),
    }
}

/// What a thing of several kinds is, in a few words.
pub(super) fn words(document: &Value, schema: &Value) -> Option<String> {
    let alternatives: Vec<&Value> = items(schema, "/oneOf").collect();
    let is_kind = |alternative: &&Value| {
        let alternative = resolved(document, alternative);
        kind(document, alternative) == "object"
    };
    (!alternatives.is_empty() && alternatives.iter().all(is_kind))
        .then(|| "object, by its type".to_owned())
}
