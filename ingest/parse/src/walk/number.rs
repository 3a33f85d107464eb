//! Length of numbers.

/// Bytes of the numbers that are looked at as a whole, at most.
const USUAL_BYTES_MAX: usize = 8;

/// Bytes of the JSON number that a text begins with; `None` when it begins with none.
#[inline]
pub fn number_len(text: &[u8]) -> Option<usize> {
    let is_negative = text.first() == Some(&b'-');
    let mut len = usize::from(is_negative);
    len += match text.get(len)? {
        b'0' => 1,
        b'1'..=b'9' => digits(text.get(len..)?),
        _ => return None,
    };
    // Most numbers end here.
    match text.get(len) {
        Some(b'.' | b'e' | b'E') => with_fraction(text, len),
        _ => Some(len),
    }
}

/// Returns true if the text between two places is a number like most: up to 8 characters, digits
/// and at most one point. For everything else, numbers or not, it returns false.
#[inline]
pub fn is_usual_number(body: &[u8], start: usize, end: usize) -> bool {
    let len = end.wrapping_sub(start);
    let text = body.get(start..).and_then(<[u8]>::first_chunk);
    let Some(text) = text.filter(|_| (1..=USUAL_BYTES_MAX).contains(&len)) else {
        return false;
    };
    let each = |byte: u8| u64::from_le_bytes([byte; USUAL_BYTES_MAX]);
    let meant = u64::MAX >> (8 * (USUAL_BYTES_MAX - len));
    // Digits become their values, so what is above 9 is none; it then has its highest bit set.
    let values = (u64::from_le_bytes(*text) ^ each(b'0')) & meant;
    let others = (values.wrapping_add(each(0x76)) | values) & each(0x80);
    let may_go_on = values & 0xff != 0;
    if others == 0 {
        return may_go_on || len == 1;
    }
    let place = others.trailing_zeros() as usize / 8;
    let is_point = others & (others - 1) == 0 && text.get(place) == Some(&b'.');
    is_point && (may_go_on || place == 1) && (1..len - 1).contains(&place)
}

/// Bytes of a number that has more than the `len` bytes of its whole part.
fn with_fraction(text: &[u8], mut len: usize) -> Option<usize> {
    if text.get(len) == Some(&b'.') {
        let fraction = digits(text.get(len + 1..)?);
        if fraction == 0 {
            return None;
        }
        len += 1 + fraction;
    }
    if matches!(text.get(len), Some(b'e' | b'E')) {
        len += 1 + usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        let exponent = digits(text.get(len..)?);
        if exponent == 0 {
            return None;
        }
        len += exponent;
    }
    Some(len)
}

/// Number of digits that a text begins with.
#[inline(always)]
fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_follow_the_grammar() {
        let table: [(&str, Option<usize>); 16] = [
            ("0", Some(1)),
            ("-0", Some(2)),
            ("01", Some(1)),
            ("10,", Some(2)),
            ("1.5", Some(3)),
            ("1.", None),
            (".5", None),
            ("-", None),
            ("-a", None),
            ("1e5", Some(3)),
            ("1E+5", Some(4)),
            ("1e-5 ", Some(4)),
            ("1e", None),
            ("1e+", None),
            ("1e999", Some(5)),
            ("123456789012345678901234567890", Some(30)),
        ];
        for (text, len) in table {
            assert_eq!(number_len(text.as_bytes()), len, "{text}");
        }
    }

    /// Returns true if the text is a usual number, with other text behind it.
    fn is_usual(text: &str) -> bool {
        let body = format!("{text},                ");
        is_usual_number(body.as_bytes(), 0, text.len())
    }

    #[test]
    fn usual_numbers_are_told_from_others() {
        let usual = ["0", "7", "10", "0.5", "19.99", "12345678", "1.000000"];
        for text in usual {
            assert!(is_usual(text), "{text}");
        }
        let others = [
            "",
            "01",
            "00",
            "1.",
            ".5",
            ".",
            "1.2.3",
            "-1",
            "1e5",
            "1 ",
            "123456789",
            "00.5",
            "1:",
            "1/2",
            "1,2",
            "\u{b1}1",
            "0x1",
            "1.a",
        ];
        for text in others {
            assert!(!is_usual(text), "{text}");
        }
        assert!(
            !is_usual_number(b"[1]", 1, 2),
            "too near the end to be looked at"
        );
    }

    proptest! {
        #[test]
        fn numbers_that_the_short_check_accepts_are_valid_json(text in "[0-9.eE+a-]{1,9}|.{1,6}|[0-9]{1,9}|[0-9]{1,5}[.][0-9]{1,5}") {
            if is_usual(&text) {
                prop_assert_eq!(number_len(text.as_bytes()), Some(text.len()));
            }
        }
    }
}
