//! LZString's `compressToBase64`, as posthog-node's form mode sends it.
//!
//! The crate `lz-str` keeps every dictionary entry as a string of its own, so that a few hundred
//! kilobytes can be made to fill memory. Here an entry is a range of the output: LZ78 adds "the
//! previous word and one character more", and those stand next to each other in what was
//! already written. Memory is bounded by the output and 8 bytes per input code.
//!
//! Codes are read least significant bit first, from characters of six bits each, most
//! significant first. Code 0: a new character of 8 bits; 1: of 16 bits; 2: the end.

use crate::DecodeError;
use crate::base64::standard_alphabet;

/// Bits of the first code, and of codes while the dictionary is small.
const START_BITS: u32 = 2;

/// Characters that a body may hold, whatever else is allowed: they take two bytes each besides the
/// output, and no client sends more than its batch of some megabytes.
const UNITS_MAX: usize = 24 << 20;

/// Appends the decoded `body`, as UTF-8.
pub fn decode(body: &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Result<(), DecodeError> {
    let mut bits = Bits::new(standard_alphabet(body));
    let broken = || DecodeError::broken("The body is not valid LZString base64.");
    let mut units = Vec::new();
    let ended = words(&mut bits, &mut units, bytes_max.min(UNITS_MAX));
    if ended == Ok(false) {
        return Err(broken());
    }
    // Output past the limit is written as far as it may be: keys are looked for in it.
    for unit in char::decode_utf16(units) {
        if out.len() > bytes_max {
            return Err(DecodeError::TooLarge);
        }
        let mut utf8 = [0; 4];
        match unit {
            Ok(character) => out.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes()),
            // Three bytes that are not UTF-8, so that the parser reports them.
            Err(lone) => {
                let [high, low] = lone.unpaired_surrogate().to_be_bytes();
                out.extend([
                    0xe0 | high >> 4,
                    0x80 | (high & 0x0f) << 2 | low >> 6,
                    0x80 | low & 0x3f,
                ]);
            }
        }
    }
    if out.len() > bytes_max {
        Err(DecodeError::TooLarge)
    } else {
        ended.map(drop)
    }
}

/// Dictionary entry: a range of the output.
#[derive(Clone, Copy)]
struct Word {
    start: u32,
    len: u32,
}

/// Appends the UTF-16 units; returns false when the input is broken.
fn words(
    bits: &mut Bits<impl Iterator<Item = u8>>,
    out: &mut Vec<u16>,
    units_max: usize,
) -> Result<bool, DecodeError> {
    // The first three codes are not words.
    let mut dictionary = vec![Word { start: 0, len: 0 }; 3];
    let mut code_bits = START_BITS;
    let mut codes_left = 1_u64;
    let mut previous: Option<Word> = None;
    loop {
        let Some(code) = bits.take(code_bits) else {
            return Ok(false);
        };
        let start = u32::try_from(out.len()).map_err(|_| DecodeError::TooLarge)?;
        let word = match (code, previous) {
            (2, _) => return Ok(true),
            (0 | 1, _) => {
                let Some(unit) = bits.take(8 << code) else {
                    return Ok(false);
                };
                out.push(u16::try_from(unit).unwrap_or(u16::MAX));
                let word = Word { start, len: 1 };
                dictionary.push(word);
                count_code(&mut codes_left, &mut code_bits);
                word
            }
            (_, None) => return Ok(false),
            (code, Some(before)) => {
                let source = match dictionary.get(code as usize) {
                    Some(known) => *known,
                    // The word being defined by this very code.
                    None if code as usize == dictionary.len() => Word {
                        start: before.start,
                        len: before.len + 1,
                    },
                    None => return Ok(false),
                };
                if out.len() + source.len as usize > units_max {
                    return Err(DecodeError::TooLarge);
                }
                repeat(out, source);
                Word {
                    start,
                    len: source.len,
                }
            }
        };
        if let Some(before) = previous {
            dictionary.push(Word {
                start: before.start,
                len: before.len + 1,
            });
            count_code(&mut codes_left, &mut code_bits);
        } else {
            code_bits = START_BITS + 1;
            codes_left = 4;
        }
        if out.len() > units_max {
            return Err(DecodeError::TooLarge);
        }
        previous = Some(word);
    }
}

/// Counts a code into use; when all of this width are, codes get a bit longer.
fn count_code(codes_left: &mut u64, code_bits: &mut u32) {
    *codes_left = codes_left.saturating_sub(1);
    if *codes_left == 0 {
        *codes_left = 1 << *code_bits;
        *code_bits += 1;
    }
}

/// Appends a range of the output to it; the range may reach one unit past its end.
fn repeat(out: &mut Vec<u16>, word: Word) {
    let start = word.start as usize;
    for place in start..start + word.len as usize {
        if let Some(unit) = out.get(place) {
            out.push(*unit);
        }
    }
}

/// Reader of the bits of base64 characters.
struct Bits<I> {
    text: I,
    value: u8,
    left: u32,
}

impl<I: Iterator<Item = u8>> Bits<I> {
    const fn new(text: I) -> Self {
        Self {
            text,
            value: 0,
            left: 0,
        }
    }

    /// Takes the next `count` bits, least significant first; `None` at the end or at a character
    /// that is not base64.
    fn take(&mut self, count: u32) -> Option<u32> {
        if count > u32::BITS {
            return None;
        }
        let mut taken = 0;
        for place in 0..count {
            if self.left == 0 {
                self.value = sextet(self.text.next()?)?;
                self.left = 6;
            }
            self.left -= 1;
            taken |= u32::from(self.value >> self.left & 1) << place;
        }
        Some(taken)
    }
}

/// Six bits of a base64 character. Padding counts as zeros, as in LZString.
const fn sextet(character: u8) -> Option<u8> {
    Some(match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        b'=' => 0,
        _ => return None,
    })
}
