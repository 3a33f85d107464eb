//! UTF-8, and CESU-8, which old posthog-js sends: beyond the basic plane each half of a
//! surrogate pair is encoded on its own.

use super::errors::{REPAIRS_MAX, invalid_utf8, too_many_repairs};
use crate::ApiError;

/// Bytes of a surrogate half, and of a pair.
const HALF_BYTES: usize = 3;
pub(super) const PAIR_BYTES: usize = 2 * HALF_BYTES;

/// Places of the surrogate pairs in a text that is otherwise UTF-8.
pub(super) fn pairs(body: &[u8]) -> Result<Vec<u32>, ApiError> {
    let mut found = Vec::new();
    let mut start = 0;
    loop {
        let rest = body.get(start..).unwrap_or_default();
        // Where there is one there are often more, and a check takes its time to begin.
        if pair(rest).is_none() {
            let Err(error) = std::str::from_utf8(rest) else {
                return Ok(found);
            };
            start += error.valid_up_to();
            if pair(body.get(start..).unwrap_or_default()).is_none() {
                return Err(invalid_utf8(start));
            }
        }
        if found.len() == REPAIRS_MAX {
            return Err(too_many_repairs());
        }
        found.push(u32::try_from(start).unwrap_or(u32::MAX));
        start += PAIR_BYTES;
    }
}

/// Character of a surrogate pair at the start of a text.
pub(super) fn pair(text: &[u8]) -> Option<char> {
    let high = half(text, 0xa0..=0xaf)?;
    let low = half(text.get(HALF_BYTES..)?, 0xb0..=0xbf)?;
    char::from_u32(0x1_0000 + ((high & 0x3ff) << 10) + (low & 0x3ff))
}

/// Unit of a surrogate half whose second byte is in a range.
fn half(text: &[u8], second: std::ops::RangeInclusive<u8>) -> Option<u32> {
    match text.get(..HALF_BYTES)? {
        [0xed, b, c @ 0x80..=0xbf] if second.contains(b) => {
            Some(0xd000 | u32::from(b & 0x3f) << 6 | u32::from(c & 0x3f))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_become_characters_and_errors_have_their_place() {
        let party = b"\"\xed\xa0\xbc\xed\xbe\x89\"";
        assert_eq!(pairs(party), Ok(vec![1]));
        assert_eq!(pair(&party[1..]), Some('🎉'));
        let two = [&party[1..7], &party[1..7], b"x"].concat();
        assert_eq!(pairs(&two), Ok(vec![0, 6]));
        let broken: [(&[u8], usize); 6] = [
            (b"a\xff", 1),
            (b"\xed\xa0\xbc", 0),
            (b"\xed\xbe\x89\xed\xa0\xbc", 0),
            (b"\xed\xa0\xbc\xed\xa0\xbc", 0),
            (b"\xed\xa0\xbc\xed\xbe\x89x\xc3", 7),
            (b"\xc0\x80", 0),
        ];
        for (bytes, at) in broken {
            assert_eq!(pairs(bytes), Err(invalid_utf8(at)), "{bytes:?}");
        }
    }
}
