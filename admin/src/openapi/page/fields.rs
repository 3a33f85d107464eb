//! Fields of bodies, answers and types.

use super::kinds::{anchor, kind};
use super::lookup::{entries, items, resolved, text};
use super::markdown;
use serde_json::Value;

/// Field of a body, an answer or a type, or a parameter.
pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) is_required: bool,
    /// Description as HTML.
    pub(super) description: String,
    /// Anchor of the field's type on the page.
    pub(super) more: Option<String>,
}

/// Fields of an object.
pub(super) fn of_object(document: &Value, schema: &Value) -> Vec<Field> {
    let is_required = |name: &str| items(schema, "/required").any(|required| required == name);
    let fields = entries(schema, "/properties").map(|(name, property)| Field {
        name: name.clone(),
        kind: kind(document, property),
        is_required: is_required(name),
        description: about(document, property),
        more: anchor(document, property),
    });
    fields.collect()
}

/// Description of a field, or else of its type.
fn about(document: &Value, property: &Value) -> String {
    let own = text(property, "/description");
    let mut about = match own.is_empty() {
        true => text(resolved(document, property), "/description"),
        false => own,
    };
    if property.get("writeOnly") == Some(&Value::Bool(true)) {
        about += " Never answered.";
    }
    markdown::inline(&about)
}
