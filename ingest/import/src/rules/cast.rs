//! Casts of values to other types.

use millrace_parse::parse_timestamp;
use millrace_rows::Micros;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::borrow::Cow;

/// Type to cast a value to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cast {
    /// Text: numbers keep their digits.
    String,
    /// A number, from a text that is one.
    Number,
    /// A whole number; the fraction is cut off.
    Integer,
    /// True or false: also `"true"`, `"yes"`, `"1"`, 1 and their opposites.
    Bool,
    /// ISO 8601 in UTC, from a time or from seconds or milliseconds since 1970.
    Time,
    /// JSON, from a text that is JSON.
    Json,
}

/// Casts a JSON value; `None` when it cannot have the type. Null stays null.
pub(super) fn cast(json: &str, to: Cast) -> Option<String> {
    let json = json.trim();
    let kind = JsonKind::of(json);
    let text = match kind {
        JsonKind::Null => return Some("null".to_owned()),
        JsonKind::Text => Cow::Owned(serde_json::from_str::<String>(json).ok()?),
        // Unchanged, with all its digits.
        _ => Cow::Borrowed(json),
    };
    let text = text.trim();
    match to {
        Cast::String if kind == JsonKind::Text => Some(json.to_owned()),
        Cast::String => Some(Value::from(text).to_string()),
        Cast::Number => number(text, kind),
        Cast::Integer => integer(text, kind),
        Cast::Bool => bool_of(text),
        Cast::Time => time(text, kind),
        Cast::Json if kind == JsonKind::Text => {
            serde_json::from_str::<IgnoredAny>(text).ok()?;
            Some(text.to_owned())
        }
        Cast::Json => Some(json.to_owned()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum JsonKind {
    Null,
    Bool,
    Number,
    Text,
    Other,
}

impl JsonKind {
    /// Determines the kind of a JSON value by its first byte.
    fn of(json: &str) -> Self {
        match json.as_bytes().first() {
            Some(b'n') | None => Self::Null,
            Some(b't' | b'f') => Self::Bool,
            Some(b'"') => Self::Text,
            Some(b'{' | b'[') => Self::Other,
            Some(_) => Self::Number,
        }
    }
}

fn number(text: &str, kind: JsonKind) -> Option<String> {
    match kind {
        JsonKind::Bool => Some(u8::from(text == "true").to_string()),
        JsonKind::Number => Some(text.to_owned()),
        JsonKind::Text if serde_json::from_str::<serde_json::Number>(text).is_ok() => {
            Some(text.to_owned())
        }
        JsonKind::Text => {
            let number: f64 = text.parse().ok()?;
            serde_json::Number::from_f64(number).map(|number| number.to_string())
        }
        JsonKind::Null | JsonKind::Other => None,
    }
}

fn integer(text: &str, kind: JsonKind) -> Option<String> {
    let text = number(text, kind)?;
    if !text.contains(['.', 'e', 'E']) {
        return Some(text);
    }
    let number: f64 = text.parse().ok()?;
    #[allow(
        clippy::cast_possible_truncation,
        reason = "that is what is asked for, within what a double holds exactly"
    )]
    (number.abs() < 9e15).then(|| (number as i64).to_string())
}

fn bool_of(text: &str) -> Option<String> {
    let is = |list: &[&str]| list.iter().any(|it| text.eq_ignore_ascii_case(it));
    if is(&["true", "t", "yes", "y", "1"]) {
        Some("true".to_owned())
    } else if is(&["false", "f", "no", "n", "0", ""]) {
        Some("false".to_owned())
    } else {
        None
    }
}

/// Limit above which numbers are milliseconds: in seconds it would be the year 5138.
const SECONDS_MAX: f64 = 1e11;

fn time(text: &str, kind: JsonKind) -> Option<String> {
    let at = match text.parse::<f64>() {
        Ok(number) if kind == JsonKind::Number || !text.contains('-') => {
            let seconds = if number.abs() >= SECONDS_MAX {
                number / 1e3
            } else {
                number
            };
            #[allow(clippy::cast_possible_truncation, reason = "checked")]
            let micros = (0.0..SECONDS_MAX)
                .contains(&seconds)
                .then(|| Micros((seconds * 1e6).round() as i64));
            micros?
        }
        _ => parse_timestamp(text.as_bytes())?,
    };
    let mut json = vec![b'"'];
    millrace_sources::time::write(&mut json, at);
    json.push(b'"');
    String::from_utf8(json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_cast_or_refused() {
        let table = [
            ("1e400", Cast::String, Some("\"1e400\"")),
            ("\"a\"", Cast::String, Some("\"a\"")),
            ("[1]", Cast::String, Some("\"[1]\"")),
            ("null", Cast::String, Some("null")),
            (
                "\" 12345678901234567890.5 \"",
                Cast::Number,
                Some("12345678901234567890.5"),
            ),
            ("\"+1\"", Cast::Number, Some("1.0")),
            ("true", Cast::Number, Some("1")),
            ("\"x\"", Cast::Number, None),
            ("\"nan\"", Cast::Number, None),
            ("{}", Cast::Number, None),
            ("\"7.9\"", Cast::Integer, Some("7")),
            ("-7.9", Cast::Integer, Some("-7")),
            (
                "123456789012345678901",
                Cast::Integer,
                Some("123456789012345678901"),
            ),
            ("1e300", Cast::Integer, None),
            ("\"Yes\"", Cast::Bool, Some("true")),
            ("0", Cast::Bool, Some("false")),
            ("\"maybe\"", Cast::Bool, None),
            (
                "\"2024-01-31 10:00\"",
                Cast::Time,
                Some("\"2024-01-31T10:00:00Z\""),
            ),
            (
                "1706659200.5",
                Cast::Time,
                Some("\"2024-01-31T00:00:00.500000Z\""),
            ),
            (
                "\"1706659200500\"",
                Cast::Time,
                Some("\"2024-01-31T00:00:00.500000Z\""),
            ),
            ("-1", Cast::Time, None),
            ("\"soon\"", Cast::Time, None),
            ("\"{\\\"a\\\":1}\"", Cast::Json, Some("{\"a\":1}")),
            ("\"{\"", Cast::Json, None),
            ("{}", Cast::Json, Some("{}")),
        ];
        for (json, to, expected) in table {
            assert_eq!(cast(json, to).as_deref(), expected, "{json} as {to:?}");
        }
    }
}
