//! Replaces parts of valid JSON that not every store can hold: the character NUL, halves of
//! surrogate pairs, huge numbers.
//!
//! Texts are scanned token by token: the six characters `\u0000` are NUL only where the backslash
//! is not itself escaped.

use std::borrow::Cow;

/// Replacement for a character that cannot be stored: U+FFFD, as in texts that are not UTF-8.
const REPLACEMENT: &str = "\\ufffd";

/// Makes a JSON text storable where numbers may have `digits_max` digits, written without an
/// exponent. Characters that cannot be stored are replaced, and numbers that cannot become texts.
/// An unchanged text is borrowed. `json` is otherwise valid.
pub(crate) fn storable(json: &[u8], digits_max: usize) -> Cow<'_, str> {
    match String::from_utf8_lossy(json) {
        Cow::Borrowed(text) => walked(text, digits_max),
        // Invalid UTF-8 was replaced, so the text has changed already.
        Cow::Owned(text) => Cow::Owned(walked(&text, digits_max).into_owned()),
    }
}

fn walked(text: &str, digits_max: usize) -> Cow<'_, str> {
    let mut walk = Walk {
        text,
        digits_max,
        changed: String::new(),
        copied: 0,
    };
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at) {
        at = match byte {
            b'"' => walk.string(at + 1),
            b'-' | b'0'..=b'9' => walk.number(at),
            _ => at + 1,
        };
    }
    walk.end()
}

struct Walk<'a> {
    text: &'a str,
    digits_max: usize,
    /// Output up to `copied`; empty while nothing was changed.
    changed: String,
    copied: usize,
}

impl<'a> Walk<'a> {
    /// Scans a string from behind its first quote to behind its last.
    fn string(&mut self, mut at: usize) -> usize {
        while let Some(found) = memchr::memchr2(b'"', b'\\', self.bytes_from(at)) {
            at += found;
            if self.bytes_from(at).first() == Some(&b'"') {
                return at + 1;
            }
            at = self.escape(at);
        }
        self.text.len()
    }

    /// Scans from a backslash to behind the character that it escapes.
    fn escape(&mut self, at: usize) -> usize {
        let alone = match self.unit(at) {
            None => return at + 2,
            Some(0xD800..=0xDBFF) => match self.unit(at + 6) {
                Some(0xDC00..=0xDFFF) => return at + 12,
                _ => true,
            },
            Some(0 | 0xDC00..=0xDFFF) => true,
            Some(_) => false,
        };
        if alone {
            self.replace(at, at + 6, REPLACEMENT);
        }
        at + 6
    }

    /// UTF-16 code unit that is escaped here, if one is.
    fn unit(&self, at: usize) -> Option<u16> {
        let digits = self.text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    }

    fn number(&mut self, at: usize) -> usize {
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let length = self.bytes_from(at).iter().take_while(|byte| is_part(byte));
        let end = at + length.count();
        let number = self.text.get(at..end).unwrap_or_default();
        if digits(number) > self.digits_max {
            self.replace(at, end, &format!("\"{number}\""));
        }
        end
    }

    fn replace(&mut self, from: usize, to: usize, with: &str) {
        self.changed += self.text.get(self.copied..from).unwrap_or_default();
        self.changed += with;
        self.copied = to;
    }

    fn end(mut self) -> Cow<'a, str> {
        if self.copied == 0 {
            return Cow::Borrowed(self.text);
        }
        self.changed += self.text.get(self.copied..).unwrap_or_default();
        Cow::Owned(self.changed)
    }

    fn bytes_from(&self, at: usize) -> &'a [u8] {
        self.text.as_bytes().get(at..).unwrap_or_default()
    }
}

/// Upper bound of a number's digits, written without an exponent.
fn digits(number: &str) -> usize {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let shift = exponent.trim_start_matches(['+', '-']);
    let shift = shift.parse().unwrap_or(usize::MAX);
    mantissa.len().saturating_add(shift)
}

#[cfg(test)]
mod tests {
    use super::storable;
    use proptest::prelude::*;
    use std::borrow::Cow;

    #[test]
    fn only_values_that_cannot_be_stored_are_changed() {
        let kept = [
            r#"{"a": "\\u0000"}"#,
            r#"{"a": "\\\\u0000", "b\"": "\\ud800"}"#,
            r#"{"a": "\ud83d\ude00 \u0001 \u00e9"}"#,
            r#"[1e300, -0.5E-10, 12345678901234567890, "1e999999", null, true]"#,
            "{\"a\": \"é😀\"}",
            "",
        ];
        for json in kept {
            let storable = storable(json.as_bytes(), 400);
            assert!(
                matches!(&storable, Cow::Borrowed(same) if *same == json),
                "{json}"
            );
        }
        let changed = [
            (r#"["\u0000"]"#, r#"["\ufffd"]"#),
            (r#"["\\\u0000\\u0000"]"#, r#"["\\\ufffd\\u0000"]"#),
            (r#"["\ud800"]"#, r#"["\ufffd"]"#),
            (r#"["\ud800\ud800\udc00"]"#, r#"["\ufffd\ud800\udc00"]"#),
            (r#"["\udc00\ud800x"]"#, r#"["\ufffd\ufffdx"]"#),
            (r#"["\uDBFF\u0041"]"#, r#"["\ufffd\u0041"]"#),
            (r#"{"\u0000": 1}"#, r#"{"\ufffd": 1}"#),
            (r#"[1e999, "\u0000"]"#, r#"["1e999", "\ufffd"]"#),
            ("[1e99999999999999999999]", "[\"1e99999999999999999999\"]"),
            ("-1E-4000", "\"-1E-4000\""),
        ];
        for (json, expected) in changed {
            let storable = storable(json.as_bytes(), 400);
            assert!(matches!(storable, Cow::Owned(_)), "{json}");
            assert_eq!(storable, expected, "{json}");
        }
        let broken = storable(b"[\"\xff\"]", 400);
        assert_eq!(broken, "[\"\u{fffd}\"]");
        assert!(matches!(broken, Cow::Owned(_)));
    }

    proptest! {
        #[test]
        fn changed_texts_stay_json_and_keep_all_other_characters(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just(r"\\".to_owned()), Just(r"\u0000".to_owned()), Just(r"\ud800".to_owned()),
                    Just(r"\udc00".to_owned()), Just(r#"\""#.to_owned()), Just(r"\n".to_owned()),
                    Just("u0000".to_owned()), "[a-zé😀]{0,3}",
                ], 0..12),
        ) {
            let json = format!("[\"{}\"]", parts.concat());
            let storable = storable(json.as_bytes(), 400);
            let parsed: Vec<String> = serde_json::from_str(&storable).unwrap();
            prop_assert!(!parsed.concat().contains('\0'));
            // Halves of pairs are replaced; all other UTF-16 code units stay.
            if let Ok(before) = serde_json::from_str::<Vec<String>>(&json) {
                prop_assert_eq!(before.concat().replace('\0', "\u{fffd}"), parsed.concat());
            }
        }
    }
}
