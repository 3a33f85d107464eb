//! Where a number ends.

/// Bytes of the JSON number a text begins with; `None` when it begins with none.
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

/// The same for a number that has more than the `len` bytes of its whole part.
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

/// How many digits a text begins with.
#[inline(always)]
fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
