//! Rule against control characters in texts of bodies, for all fields of all operations.
//!
//! A text has no control characters: none that end lines, move a cursor or turn the direction of
//! text. The rule is published in the schema as a pattern, and bodies are checked by it. A field
//! that may hold more is marked with [`TEXT`]. Free-form fields have no type, or names of the
//! customer's own (`additionalProperties`), and are kept as they are sent.

use millrace_catalog::text::{ANY, CONTROL_CLASS, LINES, TAG_CLASS, is_control};
use schemars::Schema;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Value, json};

/// Schema extension that marks a text that may hold more: [`LINES`] or [`ANY`].
pub(crate) const TEXT: &str = "x-text";

/// Pattern that fields carry if their text may not be blank.
const NOT_BLANK: &str = r"\S";
/// Formats that exclude control characters; the catalog checks addresses itself.
const STRICT_FORMATS: [&str; 3] = ["date-time", "uuid", "email"];

/// Transform that adds the pattern against control characters to every text of a schema.
#[derive(Clone, Debug)]
pub(crate) struct NoControlCharacters;

impl Transform for NoControlCharacters {
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

/// Returns true for a text without a format, choice or constant that restricts it.
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

/// Pattern that allows tabs, line feeds and carriage returns only.
fn lines() -> String {
    let rest = beyond_first();
    format!(r"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f{rest}]*$")
}

/// Character class of controls without its first range, which all of these patterns have.
fn beyond_first() -> &'static str {
    let rest = CONTROL_CLASS.strip_prefix(r"\u0000-\u001f");
    rest.unwrap_or(CONTROL_CLASS)
}

/// Transform that makes patterns refuse tag characters, too; for checking, not for publishing.
#[derive(Clone, Debug)]
pub(crate) struct NoTagCharacters;

impl Transform for NoTagCharacters {
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

/// Sentence that names the first control character of a text that does not match its pattern.
pub(crate) fn explain(text: &str) -> Option<String> {
    let is_line = |c| matches!(c, '\t' | '\n' | '\r');
    let worst = text.chars().find(|c| is_control(*c) && !is_line(*c));
    let found = worst.or_else(|| text.chars().find(|c| is_control(*c)))?;
    Some(format!(
        "This holds U+{:04X}, a control character, which is not shown as it is written. Omit it.",
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
    fn the_pattern_refuses_control_characters_and_nothing_else() {
        let schema = BodySchema::of::<Body>();
        // NUL is refused everywhere, before the pattern is looked at.
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
                let detail = explain(&text).unwrap();
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
    fn the_refused_character_is_named() {
        assert!(explain("a\n\u{1b}").unwrap().contains("U+001B"));
        assert!(explain("a\n").unwrap().contains("U+000A"));
        assert_eq!(explain("a"), None);
    }
}
