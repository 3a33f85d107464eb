//! JSON values as ClickHouse's functions read them.
//!
//! Values are kept as clients sent them. Among them are some that JSON's grammar allows and that
//! ClickHouse's parser does not: one of these in a document hides all of it from `JSONExtract`.

use serde_json::value::RawValue;

/// Bytes of `\u` and four digits.
const UNICODE_ESCAPE_BYTES: usize = 6;

/// Appends a value, with what ClickHouse cannot read replaced by what is nearest: half of a
/// surrogate pair by U+FFFD, an integer beyond 64 bits by the same number with a point (which makes
/// it a double), and a number beyond a double by `null`.
pub(super) fn push_readable(value: &RawValue, json: &mut String) {
    let mut rest = value.get();
    while let Some(at) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        json.push_str(before);
        rest = if from.starts_with('"') {
            push_string(from, json)
        } else {
            push_number(from, json)
        };
    }
    json.push_str(rest);
}

/// Appends the string at the start of a text; returns what is behind it.
fn push_string<'a>(text: &'a str, json: &mut String) -> &'a str {
    json.push('"');
    let mut rest = text.get(1..).unwrap_or_default();
    while let Some(at) = rest.find(['"', '\\']) {
        let (before, from) = rest.split_at(at);
        json.push_str(before);
        if from.starts_with('"') {
            json.push('"');
            return from.get(1..).unwrap_or_default();
        }
        let (bytes, is_half) = match unit(from) {
            None => (2, false),
            Some(0xd800..=0xdbff) if is_low(from.get(UNICODE_ESCAPE_BYTES..)) => {
                (2 * UNICODE_ESCAPE_BYTES, false)
            }
            Some(unit) => (UNICODE_ESCAPE_BYTES, (0xd800..=0xdfff).contains(&unit)),
        };
        let (escape, behind) = from.split_at_checked(bytes).unwrap_or((from, ""));
        json.push_str(if is_half { "\\ufffd" } else { escape });
        rest = behind;
    }
    json.push_str(rest);
    ""
}

/// Returns true if a text begins with the second half of a surrogate pair.
fn is_low(text: Option<&str>) -> bool {
    text.and_then(unit)
        .is_some_and(|unit| (0xdc00..=0xdfff).contains(&unit))
}

/// UTF-16 unit of the `\uhhhh` that a text begins with.
fn unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u32::from_str_radix(digits, 16).ok()
}

/// Appends the number at the start of a text; returns what is behind it.
fn push_number<'a>(text: &'a str, json: &mut String) -> &'a str {
    let is_of_number = |c: char| matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E');
    let end = text.find(|c| !is_of_number(c)).unwrap_or(text.len());
    let (number, behind) = text.split_at(end);
    let is_whole = !number.contains(['.', 'e', 'E']);
    if is_whole && (number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok()) {
        json.push_str(number);
    } else if number.parse::<f64>().is_ok_and(f64::is_finite) {
        json.push_str(number);
        json.push_str(if is_whole { ".0" } else { "" });
    } else {
        json.push_str("null");
    }
    behind
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn readable(text: &str) -> String {
        let value: &RawValue = serde_json::from_str(text).unwrap();
        let mut json = String::new();
        push_readable(value, &mut json);
        json
    }

    #[test]
    fn only_what_clickhouse_cannot_read_is_replaced() {
        let table = [
            ("18446744073709551615", "18446744073709551615"),
            ("18446744073709551616", "18446744073709551616.0"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("-9223372036854775809", "-9223372036854775809.0"),
            ("1e308", "1e308"),
            ("1e309", "null"),
            ("-1E+400", "null"),
            ("-0", "-0"),
            ("1.50", "1.50"),
            (r#"[1,1e999,{"a":1e999}]"#, r#"[1,null,{"a":null}]"#),
            (r#""cut \ud83d""#, r#""cut \ufffd""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\ude00\ud83d""#, r#""\ufffd\ufffd""#),
            (r#""\\ud83d \" 1e999""#, r#""\\ud83d \" 1e999""#),
            (
                r#"{"\uD83D":"é\u00e9\u0000"}"#,
                r#"{"\ufffd":"é\u00e9\u0000"}"#,
            ),
            ("[true,false,null,{}]", "[true,false,null,{}]"),
        ];
        for (sent, stored) in table {
            assert_eq!(readable(sent), stored, "{sent}");
        }
        let digits = "9".repeat(400);
        assert_eq!(readable(&digits), "null");
    }

    /// Texts of JSON values, with what is replaced among them.
    fn values() -> impl Strategy<Value = String> {
        let string = r#"(a|é|😀|\\\\|\\"|\\n|\\u00e9|\\ud83d|\\uDE00|\\u0000|1e999|u){0,6}"#;
        let number = "-?(0|[1-9][0-9]{0,24})([.][0-9]{1,3})?(e[+-]?[0-9]{1,3})?";
        let leaf = prop_oneof![
            string.prop_map(|text| format!("\"{text}\"")),
            number.prop_map(String::from),
            prop::sample::select(vec!["true", "false", "null"]).prop_map(String::from),
        ];
        leaf.prop_recursive(3, 12, 3, move |inner| {
            let members = prop::collection::vec((string, inner.clone()), 0..3);
            prop_oneof![
                prop::collection::vec(inner, 0..3).prop_map(|all| format!("[{}]", all.join(" ,"))),
                members.prop_map(|all| {
                    let all: Vec<_> = all.iter().map(|(k, v)| format!("\"{k}\": {v}")).collect();
                    format!("{{{}}}", all.join(","))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_becomes_one_that_strict_parsers_read(text in values()) {
            let json = readable(&text);
            // It reads no half of a pair, and no number beyond a double.
            prop_assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{json}");
            prop_assert_eq!(readable(&json), json.as_str());
            if serde_json::from_str::<serde_json::Value>(&text).is_ok() {
                prop_assert_eq!(json.replace(".0", ""), text.replace(".0", ""));
            }
        }
    }
}
