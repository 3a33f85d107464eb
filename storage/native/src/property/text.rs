//! Texts of JSON strings.

/// Calls `use_it` with the text of a JSON string, which is given with its quotes; `None` if it is
/// no string, or has half of a surrogate pair.
pub(super) fn with_text<T>(string: &[u8], use_it: impl FnOnce(&[u8]) -> T) -> Option<T> {
    let inner = inner(string)?;
    if !inner.contains(&b'\\') {
        return Some(use_it(inner));
    }
    let mut text = Vec::with_capacity(inner.len());
    append_unescaped(inner, &mut text)?;
    Some(use_it(&text))
}

/// Bytes between the quotes of a JSON string; `None` of another value.
pub(super) fn inner(string: &[u8]) -> Option<&[u8]> {
    string.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// Appends what is between the quotes of a JSON string, without escapes; `None` if one is none, or
/// half of a surrogate pair.
pub(super) fn append_unescaped(mut inner: &[u8], out: &mut Vec<u8>) -> Option<()> {
    while let Some(plain) = memchr::memchr(b'\\', inner) {
        let (before, escape) = inner.split_at_checked(plain)?;
        out.extend_from_slice(before);
        let (kind, rest) = escape.get(1..)?.split_first()?;
        inner = rest;
        let byte = match kind {
            b'"' | b'\\' | b'/' => *kind,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let (letter, rest) = letter(rest)?;
                out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                inner = rest;
                continue;
            }
            _ => return None,
        };
        out.push(byte);
    }
    out.extend_from_slice(inner);
    Some(())
}

/// Splits off the letter of `\u` escapes, behind the first `\u`.
fn letter(bytes: &[u8]) -> Option<(char, &[u8])> {
    let (first, rest) = four_digits(bytes)?;
    if let Some(letter) = char::from_u32(first) {
        return Some((letter, rest));
    }
    let (second, rest) = four_digits(rest.strip_prefix(b"\\u")?)?;
    let high = first.checked_sub(0xd800).filter(|high| *high < 0x400)?;
    let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
    let letter = char::from_u32(0x1_0000 + (high << 10) + low)?;
    Some((letter, rest))
}

fn four_digits(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = bytes.split_first_chunk::<4>()?;
    let mut number = 0;
    for digit in digits {
        number = number << 4 | char::from(*digit).to_digit(16)?;
    }
    Some((number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_a_string_without_quotes_and_escapes() {
        let table: [(&str, Option<&str>); 16] = [
            (r#""""#, Some("")),
            (r#""plain \u00e4""#, Some("plain \u{e4}")),
            (r#""\"\\\/\b\f\n\r\t""#, Some("\"\\/\u{8}\u{c}\n\r\t")),
            (r#""a\u0041\u00E4z""#, Some("aA\u{e4}z")),
            (r#""\ud83d\ude00!""#, Some("\u{1f600}!")),
            (r#""\uDBFF\uDFFF""#, Some("\u{10ffff}")),
            (r#""\u0000""#, Some("\0")),
            (r#""\ud83d""#, None),
            (r#""\ud83d\u0041""#, None),
            (r#""\ude00\ud83d""#, None),
            (r#""\u00g0""#, None),
            (r#""\u00""#, None),
            (r#""\x""#, None),
            (r#""\"#, None),
            ("7", None),
            ("\"", None),
        ];
        for (string, expected) in table {
            let text = with_text(string.as_bytes(), |text| text.to_vec());
            assert_eq!(text.as_deref(), expected.map(str::as_bytes), "{string}");
        }
    }
}
