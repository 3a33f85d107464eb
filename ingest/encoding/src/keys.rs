//! Search for project keys in a body that is too large to be decoded for an unknown project.

use crate::blocks::Blocks;
use crate::{Decoder, Encoding};

/// Bytes of a key that is looked for, at most.
const KEY_BYTES_MAX: usize = 128;
/// Different keys of each name that are returned: properties of events may have such names, too.
const KEYS_MAX: usize = 8;
/// Members of each name that are looked at: each costs more than the bytes that it has.
const MEMBERS_MAX: usize = 1_000;
/// Bytes of the beginning of a long body, as sent and decoded. A block of zstd is decoded as a
/// whole: one that decodes to four times as much fits.
const BEGINNING_SENT_BYTES: usize = 32 << 10;
const BEGINNING_BYTES: usize = 64 << 10;
const NAMES: [&[u8]; 3] = [b"\"api_key\"", b"\"$token\"", b"\"token\""];

/// Finds strings that look like a project's key in the first `bytes_max` that a body decodes to,
/// wherever they are. They are only candidates: the parser decides which project the body is for.
#[must_use]
pub fn keys_in(encoding: Encoding, body: &[u8], bytes_max: usize) -> Vec<String> {
    if encoding == Encoding::Identity {
        return keys_of(body.get(..bytes_max).unwrap_or(body));
    }
    // The body of an unknown project is not decoded more often than it must be.
    keys_decoded(encoding, body, bytes_max, Blocks::of_one_try(body.len()))
}

/// Finds such strings in the decoded beginning of a long body: at most some ten milliseconds' work,
/// and mostly one.
#[must_use]
pub fn keys_at_beginning(encoding: Encoding, body: &[u8]) -> Vec<String> {
    let beginning = body.get(..BEGINNING_SENT_BYTES).unwrap_or(body);
    // A block at a time, which gives all output of one that is cut.
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
    // Errors, and bodies that are too large, are reported elsewhere.
    let _ = Decoder::default().decode_part(encoding, body, &mut text, bytes_max, &mut blocks);
    keys_of(&text)
}

/// Finds strings that look like a project's key in a text.
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

/// Text of a string member, given what follows its name.
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
    fn keys_are_found_wherever_they_are() {
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
