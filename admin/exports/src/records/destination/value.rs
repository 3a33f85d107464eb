//! Checks of a field's value.

use super::address::{DestinationLimits, check_address};
use super::field_errors::{FieldError, invalid};
use super::fields::{FILE_FORMATS as FORMATS, FieldKind as Kind};
use serde_json::{Value, json};

/// The longest text, in characters: keys in PEM are a few thousand long.
const TEXT_CHARS_MAX: usize = 20_000;
/// The most texts of a list.
const LIST_MAX: usize = 1_000;

/// Checks a value; answers it as it is kept. Texts of numbers and booleans become numbers and
/// booleans, as the service that existing clients were written for did.
pub(super) fn checked(
    kind: Kind,
    value: &Value,
    limits: &DestinationLimits<'_>,
) -> Result<Value, FieldError> {
    match kind {
        Kind::Integer { min, max } => integer(value, min, max),
        Kind::Boolean => boolean(value),
        Kind::TextList => list(value),
        Kind::Choice(choices) => {
            let text = text(value)?;
            if choices.contains(&text) {
                return Ok(value.clone());
            }
            Err(("invalid_choice", format!("Give {}.", one_of(choices))))
        }
        // Pairs of format and compression are checked when both are known.
        Kind::Compression => text(value).map(|text| json!(text)),
        Kind::Format => {
            let text = text(value)?;
            let known = FORMATS.iter().any(|(format, _)| *format == text);
            let names = FORMATS.map(|(format, _)| format);
            known
                .then(|| json!(text))
                .ok_or(("invalid_input", format!("Give {}.", one_of(&names))))
        }
        _ => {
            let text = text(value)?;
            check_address(kind, text, limits)?;
            Ok(json!(text))
        }
    }
}

/// Alternatives in a sentence: `a, b or c`.
pub(super) fn one_of(names: &[&str]) -> String {
    match names {
        [before @ .., last] if !before.is_empty() => format!("{} or {last}", before.join(", ")),
        names => names.concat(),
    }
}

fn text(value: &Value) -> Result<&str, FieldError> {
    let Some(text) = value.as_str() else {
        return Err(invalid("This must be a text."));
    };
    if text.chars().count() > TEXT_CHARS_MAX {
        let detail = format!("This may have {TEXT_CHARS_MAX} characters at most.");
        return Err(("max_length", detail));
    }
    Ok(text)
}

fn integer(value: &Value, min: i64, max: i64) -> Result<Value, FieldError> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_i64(),
    };
    match number {
        None => Err(invalid("This must be a whole number.")),
        Some(number) if number < min => Err(("min_value", format!("This must be {min} or more."))),
        Some(number) if number > max => Err(("max_value", format!("This must be {max} or less."))),
        Some(number) => Ok(json!(number)),
    }
}

fn boolean(value: &Value) -> Result<Value, FieldError> {
    match value {
        Value::Bool(_) => Ok(value.clone()),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(json!(true)),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(json!(false)),
        _ => Err(invalid("This must be true or false.")),
    }
}

fn list(value: &Value) -> Result<Value, FieldError> {
    let Some(items) = value.as_array() else {
        return Err(("not_a_list", "Give a list of texts.".to_owned()));
    };
    if items.len() > LIST_MAX {
        let detail = format!("This may have {LIST_MAX} items at most.");
        return Err(("max_length", detail));
    }
    items.iter().try_for_each(|item| text(item).map(drop))?;
    Ok(value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_are_joined_into_a_sentence() {
        for (names, expected) in [
            (&[][..], ""),
            (&["a"], "a"),
            (&["a", "b"], "a or b"),
            (&["a", "b", "c"], "a, b or c"),
        ] {
            assert_eq!(one_of(names), expected);
        }
    }

    #[test]
    fn texts_become_numbers_and_booleans() {
        let port = Kind::Integer { min: 1, max: 9 };
        let table = [
            (port, json!("5"), Ok(json!(5))),
            (port, json!(5), Ok(json!(5))),
            (port, json!(0), Err("min_value")),
            (port, json!("10"), Err("max_value")),
            (port, json!(1.5), Err("invalid_input")),
            (port, json!("five"), Err("invalid_input")),
            (Kind::Boolean, json!("True"), Ok(json!(true))),
            (Kind::Boolean, json!(false), Ok(json!(false))),
            (Kind::Boolean, json!(1), Err("invalid_input")),
            (Kind::Text, json!(1), Err("invalid_input")),
            (Kind::Text, json!("x".repeat(20_001)), Err("max_length")),
            (Kind::TextList, json!("a"), Err("not_a_list")),
            (Kind::TextList, json!([1]), Err("invalid_input")),
            (Kind::TextList, json!(["a"]), Ok(json!(["a"]))),
            (Kind::Choice(&["a"]), json!("b"), Err("invalid_choice")),
            (Kind::Format, json!("Parquet"), Ok(json!("Parquet"))),
            (Kind::Format, json!("XML"), Err("invalid_input")),
        ];
        let limits = DestinationLimits {
            allow_private: false,
            is_public: |_| false,
            export_root: None,
        };
        for (kind, value, expected) in table {
            let found = checked(kind, &value, &limits).map_err(|(code, _)| code);
            assert_eq!(found, expected, "{kind:?} {value}");
        }
    }
}
