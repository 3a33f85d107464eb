//! Project keys in a body that is too large to be decoded for somebody who is not known.

use crate::blocks::Blocks;
use crate::{Decoder, Encoding};

/// Bytes of a key that is looked for.
const KEY_BYTES_MAX: usize = 128;
/// Different keys of each name that are given back: properties of events may be called so, too.
const KEYS_MAX: usize = 8;
/// Members of each name that are looked at: each costs more than the bytes that it has.
const MEMBERS_MAX: usize = 1_000;
/// Bytes as sent of a long body, and decoded ones, that are its beginning. A block of zstd comes out as a whole: one that
/// decodes to four times as much is in this.
const BEGINNING_SENT_BYTES: usize = 32 << 10;
const BEGINNING_BYTES: usize = 64 << 10;
const NAMES: [&[u8]; 3] = [b"\"api_key\"", b"\"$token\"", b"\"token\""];

/// What looks like a project's key in the first `bytes_max` that a body decodes to, wherever it is. It only
/// says whose the body may be; whose it is, the parser finds out.
#[must_use]
pub fn keys_in(encoding: Encoding, body: &[u8], bytes_max: usize) -> Vec<String> {
    if encoding == Encoding::Identity {
        return keys_of(body.get(..bytes_max).unwrap_or(body));
    }
    // What is nobody's is not decoded more often than it must be.
    keys_decoded(encoding, body, bytes_max, Blocks::of_one_try(body.len()))
}

/// The same of what the beginning of a long body decodes to: at most some ten milliseconds' work, and mostly one.
#[must_use]
pub fn keys_at_beginning(encoding: Encoding, body: &[u8]) -> Vec<String> {
    let beginning = body.get(..BEGINNING_SENT_BYTES).unwrap_or(body);
    // A block at a time, which gives what there is of one that is cut.
    let blocks = Blocks::of(body.len());
    keys_decoded(encoding, beginning, BEGINNING_BYTES, blocks)
}

fn keys_decoded(
    encoding: Encoding,
    body: &[u8],
    bytes_max: usize,
    mut blocks: Blocks,
) -> Vec<String> {
    let mut text = Vec::new();
    // What is broken, or too large, is somebody else's to say.
    let _ = Decoder::default().decode_part(encoding, body, &mut text, bytes_max, &mut blocks);
    keys_of(&text)
}

/// The same of a text.
pub(crate) fn keys_of(text: &[u8]) -> Vec<String> {
    let mut keys = Vec::new();
    for name in NAMES {
        let start = keys.len();
        for at in memchr::memmem::find_iter(text, name).take(MEMBERS_MAX) {
            if keys.len() == start + KEYS_MAX {
                break;
            }
            let key = text.get(at + name.len()..).and_then(key_behind);
            let key = key.and_then(|key| std::str::from_utf8(key).ok());
            if let Some(key) = key
                && !keys.iter().any(|known| known == key)
            {
                keys.push(key.to_owned());
            }
        }
    }
    keys
}

/// Whether a deflated body begins like zlib's; a bare stream may by chance.
pub(crate) fn has_zlib_header(body: &[u8]) -> bool {
    matches!(body, [first, second, ..]
        if first & 0x0f == 8 && u16::from_be_bytes([*first, *second]).is_multiple_of(31))
}

/// The text of a member behind its name.
#[must_use]
pub fn key_behind(rest: &[u8]) -> Option<&[u8]> {
    let rest = rest.trim_ascii_start().strip_prefix(b":")?;
    let rest = rest.trim_ascii_start().strip_prefix(b"\"")?;
    let start = rest.get(..rest.len().min(KEY_BYTES_MAX))?;
    let key = start.get(..memchr::memchr(b'"', start)?)?;
    (!key.is_empty()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &[u8]) -> Vec<String> {
        keys_in(Encoding::Identity, text, usize::MAX)
    }

    #[test]
    fn what_looks_like_a_key_is_found_wherever_it_is() {
        let table: [(&[u8], &[&str]); 7] = [
            (br#"{"api_key":"phc_a","batch":["#, &["phc_a"]),
            (
                br#"[{"event":"e","properties":{"token" : "phc_b","x":["#,
                &["phc_b"],
            ),
            (
                br#"{"token":"a","api_key":"b","token":"a","$token":"c"}"#,
                &["b", "c", "a"],
            ),
            (br#"{"batch":[{"event":"e"},"#, &[]),
            (br#"{"api_key":17,"#, &[]),
            (br#"{"api_key":"phc_"#, &[]),
            (b"{\"api_key\":\"\xff\"", &[]),
        ];
        for (text, keys) in table {
            assert_eq!(found(text), keys, "{}", text.escape_ascii());
        }
    }
}
