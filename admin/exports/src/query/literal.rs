//! Literals in a query: texts, numbers, types, units.
//!
//! Nothing is passed on as it was sent. Names go between backticks; texts are read by ClickHouse's
//! escape rules and written with as few escapes as possible, so that it does not matter where two
//! lexers might disagree about a customer's text.

use super::error::{QueryError, refused};
use millrace_clickhouse::quoted_text;
use sqlparser::ast::{DataType, DateTimeField, Value};

/// Writes a constant value.
pub(super) fn value(value: &Value) -> Result<String, QueryError> {
    match value {
        Value::Number(digits, false) => number(digits),
        Value::Boolean(true) => Ok("true".to_owned()),
        Value::Boolean(false) => Ok("false".to_owned()),
        Value::Null => Ok("NULL".to_owned()),
        Value::SingleQuotedString(raw) => text(raw),
        other => Err(refused(&format!("the value {other}"))),
    }
}

/// Text of a value, if it is one.
pub(super) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::SingleQuotedString(raw) => unescaped(raw),
        _ => None,
    }
}

/// Checks a number: digits, a point, an exponent; no other base, no separators.
fn number(digits: &str) -> Result<String, QueryError> {
    let no_number = || refused(&format!("the number {digits}"));
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (
            mantissa,
            exponent.strip_prefix(['+', '-']).unwrap_or(exponent),
        ),
        None => (digits, "0"),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = [whole, fraction, exponent].into_iter().all(is_digits)
        && !(whole.is_empty() && fraction.is_empty())
        && !exponent.is_empty();
    if !is_number {
        return Err(no_number());
    }
    // Not every parser takes `.5` and `5.` for numbers.
    let whole = if whole.is_empty() { "0" } else { whole };
    let rest = digits.get(mantissa.len()..).unwrap_or_default();
    if mantissa.contains('.') && !fraction.is_empty() {
        return Ok(format!("{whole}.{fraction}{rest}"));
    }
    Ok(format!("{whole}{rest}"))
}

/// Writes a text, given its content between the quotes.
fn text(raw: &str) -> Result<String, QueryError> {
    let text = unescaped(raw).ok_or_else(|| refused("such escapes in texts"))?;
    Ok(quoted_text(&text))
}

/// Reads ClickHouse's escapes: a doubled quote, known letters, `\xHH`; before any other character a
/// backslash stands for itself. `None` for bytes that are no text.
fn unescaped(raw: &str) -> Option<String> {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw.chars();
    while let Some(char) = rest.next() {
        match char {
            // The parser ends a text at a single quote, so quotes are doubled here.
            '\'' => text.push(rest.next()?),
            '\\' => match rest.next()? {
                'a' => text.push('\u{7}'),
                'b' => text.push('\u{8}'),
                'e' => text.push('\u{1b}'),
                'f' => text.push('\u{c}'),
                'n' => text.push('\n'),
                'r' => text.push('\r'),
                't' => text.push('\t'),
                'v' => text.push('\u{b}'),
                '0' => text.push('\0'),
                'x' => {
                    let digits: String = rest.by_ref().take(2).collect();
                    let byte = u8::from_str_radix(&digits, 16).ok()?;
                    let is_text = digits.len() == 2 && byte.is_ascii();
                    text.push(is_text.then_some(char::from(byte))?);
                }
                // `\N` is an empty value in ClickHouse.
                'N' => return None,
                escaped @ ('\\' | '\'' | '"' | '`' | '/' | '=') => text.push(escaped),
                other => text.extend(['\\', other]),
            },
            char => text.push(char),
        }
    }
    Some(text)
}

/// Writes the name of a type.
pub(super) fn type_name(data_type: &DataType) -> Result<String, QueryError> {
    let name = match data_type {
        DataType::Nullable(inner) => return Ok(format!("Nullable({})", type_name(inner)?)),
        DataType::LowCardinality(inner) => {
            return Ok(format!("LowCardinality({})", type_name(inner)?));
        }
        DataType::Datetime64(precision @ 0..=9, None) => {
            return Ok(format!("DateTime64({precision})"));
        }
        DataType::Uuid => "UUID",
        DataType::Int8(None) => "Int8",
        DataType::Int16 => "Int16",
        DataType::Int32 => "Int32",
        DataType::Int64 => "Int64",
        DataType::UInt8 => "UInt8",
        DataType::UInt16 => "UInt16",
        DataType::UInt32 => "UInt32",
        DataType::UInt64 => "UInt64",
        DataType::Float32 => "Float32",
        DataType::Float64 => "Float64",
        DataType::Bool | DataType::Boolean => "Bool",
        DataType::Date => "Date",
        DataType::Date32 => "Date32",
        DataType::Datetime(None) => "DateTime",
        DataType::String(None) => "String",
        other => return Err(refused(&format!("the type {other}"))),
    };
    Ok(name.to_owned())
}

/// Writes the unit of an interval.
pub(super) fn unit(field: &DateTimeField) -> Result<&'static str, QueryError> {
    match field {
        DateTimeField::Year => Ok("YEAR"),
        DateTimeField::Quarter => Ok("QUARTER"),
        DateTimeField::Month => Ok("MONTH"),
        DateTimeField::Week(None) => Ok("WEEK"),
        DateTimeField::Day => Ok("DAY"),
        DateTimeField::Hour => Ok("HOUR"),
        DateTimeField::Minute => Ok("MINUTE"),
        DateTimeField::Second => Ok("SECOND"),
        other => Err(refused(&format!("the unit {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_clickhouse_reads_them() {
        let table = [
            ("", ""),
            ("a", "a"),
            ("a''b", "a'b"),
            (r"a\'b", "a'b"),
            (r"\\", r"\"),
            (r"\d+\.\%", r"\d+\.\%"),
            (r"\n\t\0\x41", "\n\t\0A"),
            (r#"\"\`\/"#, "\"`/"),
            ("é漢", "é漢"),
        ];
        for (raw, expected) in table {
            assert_eq!(unescaped(raw).as_deref(), Some(expected), "{raw}");
        }
        for raw in [r"\xff", r"\x4", r"\xzz", r"\N", r"\"] {
            assert_eq!(unescaped(raw), None, "{raw}");
        }
    }

    #[test]
    fn numbers_are_normalized_or_refused() {
        let table = [
            ("0", Some("0")),
            ("12.50", Some("12.50")),
            (".5", Some("0.5")),
            ("5.", Some("5")),
            ("1e9", Some("1e9")),
            ("1.5E-3", Some("1.5E-3")),
            ("1_000", None),
            ("1e", None),
            (".", None),
            ("", None),
            ("1.2.3", None),
            ("0x1f", None),
        ];
        for (digits, expected) in table {
            assert_eq!(number(digits).ok().as_deref(), expected, "{digits}");
        }
    }
}
