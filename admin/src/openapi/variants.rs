//! Sections of the page for types with several variants that one field tells apart: the fields
//! and an example of each variant.

use super::fields::{Field, body, items, paragraphs, resolved, text};
use serde_json::Value;

/// A type with several variants.
pub(super) struct Variants {
    /// Anchor on the page.
    pub(super) id: String,
    /// Heading of the section.
    pub(super) title: String,
    /// Variants of the type.
    pub(super) kinds: Vec<Variant>,
}

/// One variant of a type.
pub(super) struct Variant {
    pub(super) name: String,
    pub(super) description: Vec<String>,
    /// Fields of the variant's `config`.
    pub(super) fields: Vec<Field>,
    /// A complete example, as JSON.
    pub(super) example: String,
}

/// Types with several variants by their anchors, sorted and without duplicates.
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
