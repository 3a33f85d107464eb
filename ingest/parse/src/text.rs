//! Decoding of strings from JSON text to characters.

use crate::span::{Kind, Span};

/// Error for half of a surrogate pair, which is no character, so that the text is no string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoneSurrogate;

/// Text of a string span, decoded into `scratch` when it has escapes.
#[inline]
pub fn decode<'s>(
    body: &'s [u8],
    span: Span,
    scratch: &'s mut String,
) -> Result<&'s str, LoneSurrogate> {
    let raw = span.of(body);
    if span.kind() == Kind::Escaped {
        scratch.clear();
        unescape(raw, scratch)?;
        return Ok(scratch);
    }
    // The index has checked the whole body, so this cannot fail.
    std::str::from_utf8(raw).map_err(|_| LoneSurrogate)
}

/// Text of a string span as bytes, for text that is ASCII or refused anyway; trimmed.
#[inline]
pub fn decode_ascii<'s>(
    body: &'s [u8],
    span: Span,
    scratch: &'s mut String,
) -> Result<&'s [u8], LoneSurrogate> {
    if span.kind() == Kind::Escaped {
        return decode(body, span, scratch).map(|text| text.as_bytes().trim_ascii());
    }
    Ok(span.of(body).trim_ascii())
}

/// Appends the characters of a string whose escapes are known to be well formed.
#[cold]
pub fn unescape(raw: &[u8], out: &mut String) -> Result<(), LoneSurrogate> {
    let mut rest = raw;
    loop {
        // Where there is one escape there are often more, and a search takes its time to begin.
        if rest.first() != Some(&b'\\') {
            let Some(at) = memchr::memchr(b'\\', rest) else {
                break;
            };
            let (plain, escape) = rest.split_at(at);
            out.push_str(std::str::from_utf8(plain).map_err(|_| LoneSurrogate)?);
            rest = escape;
        }
        let (character, len) = escaped(rest)?;
        out.push(character);
        rest = rest.get(len..).unwrap_or_default();
    }
    out.push_str(std::str::from_utf8(rest).map_err(|_| LoneSurrogate)?);
    Ok(())
}

/// Character of an escape, and how many bytes spell it.
pub fn escaped(escape: &[u8]) -> Result<(char, usize), LoneSurrogate> {
    let simple = match escape.get(1) {
        Some(b'u') => return unicode(escape),
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(other) => char::from(*other),
        None => return Err(LoneSurrogate),
    };
    Ok((simple, 2))
}

fn unicode(escape: &[u8]) -> Result<(char, usize), LoneSurrogate> {
    let first = unit(escape).ok_or(LoneSurrogate)?;
    if let Some(character) = char::from_u32(first) {
        return Ok((character, 6));
    }
    let second = escape.get(6..).and_then(unit).ok_or(LoneSurrogate)?;
    if first >= 0xdc00 || !(0xdc00..0xe000).contains(&second) {
        return Err(LoneSurrogate);
    }
    let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    Ok((char::from_u32(code).ok_or(LoneSurrogate)?, 12))
}

/// UTF-16 unit of `\uhhhh`.
fn unit(escape: &[u8]) -> Option<u32> {
    let digits = escape.strip_prefix(b"\\u")?.get(..4)?;
    let value = |sum: u32, digit: &u8| Some(sum << 4 | char::from(*digit).to_digit(16)?);
    digits.iter().try_fold(0, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_characters() {
        let table = [
            (r"plain", Ok("plain")),
            (r#"\"\\\/\b\f\n\r\t"#, Ok("\"\\/\u{8}\u{c}\n\r\t")),
            (r"a\u0065\u00E9z", Ok("aeéz")),
            (r"\u0000", Ok("\0")),
            (r"\ud83d\ude00!", Ok("😀!")),
            (r"\ud83d", Err(LoneSurrogate)),
            (r"\ud83dx", Err(LoneSurrogate)),
            (r"\ud83d\n", Err(LoneSurrogate)),
            (r"\ude00\ud83d", Err(LoneSurrogate)),
            (r"\ud83d\ud83d", Err(LoneSurrogate)),
        ];
        for (raw, expected) in table {
            let mut out = String::new();
            let result = unescape(raw.as_bytes(), &mut out).map(|()| out.as_str());
            assert_eq!(result, expected, "{raw}");
        }
    }
}
