//! UTF-8, and CESU-8, which old posthog-js sends: beyond the basic plane each half of a
//! surrogate pair is encoded on its own.

use super::{Patch, Replacement};

/// Bytes of a surrogate half, and of a pair.
const HALF_BYTES: usize = 3;
const PAIR_BYTES: usize = 2 * HALF_BYTES;

/// The surrogate pairs of a text that is otherwise UTF-8; the offset where it is neither.
pub(super) fn patches(body: &[u8]) -> Result<Vec<Patch>, usize> {
    let mut patches = Vec::new();
    let mut start = 0;
    while let Err(error) = std::str::from_utf8(body.get(start..).unwrap_or_default()) {
        start += error.valid_up_to();
        let character = pair(body.get(start..).unwrap_or_default()).ok_or(start)?;
        patches.push(Patch {
            start,
            end: start + PAIR_BYTES,
            with: Replacement::Character(character),
        });
        start += PAIR_BYTES;
    }
    Ok(patches)
}

/// The character of a surrogate pair at the start of a text.
fn pair(text: &[u8]) -> Option<char> {
    let high = half(text, 0xa0..=0xaf)?;
    let low = half(text.get(HALF_BYTES..)?, 0xb0..=0xbf)?;
    char::from_u32(0x1_0000 + ((high & 0x3ff) << 10) + (low & 0x3ff))
}

/// The unit of a surrogate half whose second byte is in a range.
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
    fn pairs_become_characters_and_the_rest_is_found() {
        let party = b"\"\xed\xa0\xbc\xed\xbe\x89\"";
        let found = patches(party).unwrap();
        assert_eq!((found[0].start, found[0].end), (1, 7));
        assert!(matches!(found[0].with, Replacement::Character('🎉')));
        let broken: [(&[u8], usize); 6] = [
            (b"a\xff", 1),
            (b"\xed\xa0\xbc", 0),
            (b"\xed\xbe\x89\xed\xa0\xbc", 0),
            (b"\xed\xa0\xbc\xed\xa0\xbc", 0),
            (b"\xed\xa0\xbc\xed\xbe\x89x\xc3", 7),
            (b"\xc0\x80", 0),
        ];
        for (bytes, at) in broken {
            assert_eq!(patches(bytes).err(), Some(at), "{bytes:?}");
        }
    }
}
