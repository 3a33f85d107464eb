//! Numbers and truth values of JSON texts.

use std::str::{FromStr, from_utf8};

/// Parses a number without fraction and exponent; `None` if it is none of 64 bits.
pub(super) fn whole(json: &[u8]) -> Option<i64> {
    number(json)
}

/// Parses a number; `None` if it is beyond a double. `-0` is a whole number, which has no sign.
pub(super) fn real(json: &[u8]) -> Option<f64> {
    let whole = whole(json).map(|whole| whole as f64);
    let number = whole.or_else(|| number(json))?;
    number.is_finite().then_some(number)
}

/// Parses a truth value.
pub(super) const fn flag(json: &[u8]) -> Option<bool> {
    match json {
        b"true" => Some(true),
        b"false" => Some(false),
        _ => None,
    }
}

/// Parses a number. The standard library also knows `+1`, `.5`, `inf` and `nan`, which are no JSON.
fn number<T: FromStr>(json: &[u8]) -> Option<T> {
    let digits = json.strip_prefix(b"-").unwrap_or(json);
    if !digits.first()?.is_ascii_digit() {
        return None;
    }
    from_utf8(json).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_truth_values_are_those_of_json_within_their_type() {
        type Row<'a> = (&'a str, Option<i64>, Option<f64>, Option<bool>);
        let table: [Row<'_>; 16] = [
            ("0", Some(0), Some(0.0), None),
            ("-0", Some(0), Some(0.0), None),
            ("-0.0", None, Some(-0.0), None),
            ("42", Some(42), Some(42.0), None),
            ("-1", Some(-1), Some(-1.0), None),
            (
                "9223372036854775807",
                Some(i64::MAX),
                Some(9_223_372_036_854_775_807.0),
                None,
            ),
            (
                "9223372036854775808",
                None,
                Some(9_223_372_036_854_775_808.0),
                None,
            ),
            ("1.0", None, Some(1.0), None),
            ("1e2", None, Some(100.0), None),
            ("1e400", None, None, None),
            ("-inf", None, None, None),
            ("+1", None, None, None),
            ("\"1\"", None, None, None),
            ("null", None, None, None),
            ("true", None, None, Some(true)),
            ("false", None, None, Some(false)),
        ];
        for (json, expected_whole, expected_real, expected_flag) in table {
            let bytes = json.as_bytes();
            assert_eq!(whole(bytes), expected_whole, "{json}");
            let bits = |number: Option<f64>| number.map(f64::to_bits);
            assert_eq!(bits(real(bytes)), bits(expected_real), "{json}");
            assert_eq!(flag(bytes), expected_flag, "{json}");
        }
    }
}
