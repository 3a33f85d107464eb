//! Texts that a body may hold: the one place where it is decided for all fields of all operations.
//!
//! A text has no control characters: none that end lines, move a cursor or turn the direction of text. So it is
//! published, as a pattern, and so bodies are checked. A field whose text is more than a name says so by
//! [`TEXT`]. What is free-form has no type, or names of the customer's own (`additionalProperties`), and is
//! kept as it is sent.

use millrace_catalog::text::{CONTROL_CLASS, TAG_CLASS, is_control};
use schemars::Schema;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Value, json};

/// Marks a text that may hold more: [`LINES`] or [`ANY`].
pub(crate) const TEXT: &str = "x-text";
/// Line ends and tabs as well.
pub(crate) const LINES: &str = "lines";
/// All characters: who takes it knows what they mean.
pub(crate) const ANY: &str = "any";

/// Pattern of texts that may not be blank, as fields are written with it.
const NOT_BLANK: &str = r"\S";
/// Formats that leave no room for controls; whether an address does, the catalog looks itself.
const STRICT_FORMATS: [&str; 3] = ["date-time", "uuid", "email"];

/// States of every text that it has no control characters.
#[derive(Clone, Debug)]
pub(crate) struct PlainTexts;

impl Transform for PlainTexts {
    fn transform(&mut self, schema: &mut Schema) {
        let free = schema.remove("additionalProperties");
        transform_subschemas(self, schema);
        if let Some(free) = free {
            schema.insert("additionalProperties".to_owned(), free);
        }
        let kind = schema.remove(TEXT);
        let kind = kind.as_ref().and_then(Value::as_str);
        if kind == Some(ANY) || !is_open_text(schema) {
            return;
        }
        let pattern = schema.get("pattern").and_then(Value::as_str);
        let pattern = match (pattern, kind) {
            (None, Some(LINES)) => lines(),
            (None, _) => one_line(),
            (Some(NOT_BLANK), _) => not_blank(),
            (Some(_), _) => return,
        };
        schema.insert("pattern".to_owned(), json!(pattern));
    }
}

/// Whether it is a text that could be anything.
fn is_open_text(schema: &Schema) -> bool {
    let is_text = match schema.get("type") {
        Some(Value::String(kind)) => kind == "string",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        _ => false,
    };
    let format = schema.get("format").and_then(Value::as_str);
    let is_strict = format.is_some_and(|format| STRICT_FORMATS.contains(&format));
    is_text && !is_strict && schema.get("enum").or(schema.get("const")).is_none()
}

fn one_line() -> String {
    format!("^[^{CONTROL_CLASS}]*$")
}

fn not_blank() -> String {
    format!(r"^[^{CONTROL_CLASS}]*[^{CONTROL_CLASS}\s][^{CONTROL_CLASS}]*$")
}

/// The same but for tabs, line feeds and carriage returns.
fn lines() -> String {
    let rest = beyond_first();
    format!(r"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f{rest}]*$")
}

/// Part that all of these patterns have: the class without its first range.
fn beyond_first() -> &'static str {
    let rest = CONTROL_CLASS.strip_prefix(r"\u0000-\u001f");
    rest.unwrap_or(CONTROL_CLASS)
}

/// Has patterns refuse tags as well, where they are checked and not published.
#[derive(Clone, Debug)]
pub(crate) struct NoTags;

impl Transform for NoTags {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let pattern = schema.get("pattern").and_then(Value::as_str);
        if let Some(pattern) = pattern {
            let rest = beyond_first();
            let pattern = pattern.replace(rest, &format!("{rest}{TAG_CLASS}"));
            schema.insert("pattern".to_owned(), json!(pattern));
        }
    }
}

/// A sentence on the first control character of a text that does not fit its pattern.
pub(crate) fn told(text: &str) -> Option<String> {
    let is_line = |c| matches!(c, '\t' | '\n' | '\r');
    let worst = text.chars().find(|c| is_control(*c) && !is_line(*c));
    let found = worst.or_else(|| text.chars().find(|c| is_control(*c)))?;
    Some(format!(
        "This holds U+{:04X}, a control character, which is not shown as it is written. Leave it out.",
        u32::from(found)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ApiError;
    use crate::request::body;
    use crate::schema::BodySchema;
    use http::HeaderMap;
    use schemars::JsonSchema;

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "its schema")]
    struct Body {
        name: Option<String>,
        #[schemars(regex(pattern = r"\S"))]
        title: Option<String>,
        #[schemars(extend("x-text" = "lines"))]
        about: Option<String>,
        #[schemars(extend("x-text" = "any"))]
        code: Option<String>,
        list: Option<Vec<String>>,
    }

    fn refused(schema: &BodySchema, sent: &Value) -> Option<ApiError> {
        let sent = sent.to_string().into();
        body::check(&HeaderMap::new(), &sent, schema).err()
    }

    #[test]
    fn the_pattern_refuses_what_is_a_control_and_nothing_else() {
        let schema = BodySchema::of::<Body>();
        // NUL is refused everywhere, before.
        let all = (1..=0x10_ffff).filter_map(char::from_u32);
        let (controls, others): (Vec<char>, Vec<char>) = all.partition(|c| is_control(*c));
        for c in controls {
            let text = format!("a{c}b");
            let is_line = matches!(c, '\t' | '\n' | '\r');
            let table = [
                (json!({ "name": text }), Some("name")),
                (json!({ "title": text }), Some("title")),
                (json!({ "list": ["a", text] }), Some("list__1")),
                (json!({ "about": text }), Some("about").filter(|_| !is_line)),
                (json!({ "code": text }), None),
            ];
            for (body, attr) in table {
                let detail = told(&text).unwrap();
                let expected =
                    attr.map(|attr| ApiError::invalid("invalid_input", Some(attr), detail));
                assert_eq!(refused(&schema, &body), expected, "{body}");
            }
        }
        let others: String = others.into_iter().collect();
        for field in ["name", "title", "about", "code"] {
            assert_eq!(refused(&schema, &json!({ field: others })), None, "{field}");
        }
        let blank = ApiError::invalid("blank", Some("title"), "This field may not be blank.");
        let blank = Some(blank);
        assert_eq!(refused(&schema, &json!({ "title": " " })), blank);
        assert_eq!(
            refused(&schema, &json!({ "name": null, "title": null })),
            None
        );
    }

    #[test]
    fn the_character_is_named() {
        assert!(told("a\n\u{1b}").unwrap().contains("U+001B"));
        assert!(told("a\n").unwrap().contains("U+000A"));
        assert_eq!(told("a"), None);
    }
}
