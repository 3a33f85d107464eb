//! Characters of JSON, as all passes over a body see them.

/// Zeros behind the character of the last mark, so that four characters may be read at any mark.
pub const CHARACTERS_BEHIND: usize = 4;

/// Refusal of a text that is not JSON, or nested too deep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// Bytes of the escape whose backslash was just read; `None` when it is none.
pub fn escape_len(after: &[u8]) -> Option<usize> {
    match after.first()? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' => {
            let digits = after.get(1..5)?;
            digits.iter().all(u8::is_ascii_hexdigit).then_some(6)
        }
        _ => None,
    }
}

/// Returns true for JSON's white space.
#[inline]
pub const fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t' | b'\r')
}
