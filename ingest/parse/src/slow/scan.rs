//! Scan of JSON byte by byte, for the exact place of an error.

use super::errors::REPAIRS_MAX;
use crate::characters::{escape_len, is_white};
use crate::walk::number_len;

/// Error of the scan, with its place in the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanError {
    Syntax(usize),
    /// More behind the end of the text.
    More(usize),
    TooDeep(usize),
    /// More words than may be repaired.
    TooMany,
    /// JSON, but neither an object nor an array.
    NotAContainer,
}

/// Scans a JSON text that begins at `start`; returns the places of the words that no JSON has but
/// that Python writes for floats that are no numbers.
pub(super) fn scan(body: &[u8], start: usize, depth_max: usize) -> Result<Vec<u32>, ScanError> {
    let mut scan = Scan {
        body,
        at: start,
        closers: Vec::new(),
        depth_max,
        words: Vec::new(),
    };
    scan.skip_white();
    let is_container = matches!(scan.peek(), Some(b'{' | b'['));
    scan.text()?;
    if !is_container {
        return Err(ScanError::NotAContainer);
    }
    Ok(scan.words)
}

/// Bytes of the word for a float that is no number, if a text begins with one.
pub(super) const fn no_number_len(text: &[u8]) -> Option<usize> {
    match text {
        [b'N', b'a', b'N', ..] => Some(3),
        [b'I', b'n', b'f', b'i', b'n', b'i', b't', b'y', ..] => Some(8),
        [b'-', b'I', b'n', b'f', b'i', b'n', b'i', b't', b'y', ..] => Some(9),
        _ => None,
    }
}

struct Scan<'a> {
    body: &'a [u8],
    at: usize,
    /// Closing characters of the open containers, innermost last.
    closers: Vec<u8>,
    depth_max: usize,
    words: Vec<u32>,
}

impl<'a> Scan<'a> {
    fn peek(&self) -> Option<u8> {
        self.body.get(self.at).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.body.get(self.at..).unwrap_or_default()
    }

    fn wrong<T>(&self) -> Result<T, ScanError> {
        Err(ScanError::Syntax(self.at))
    }

    fn skip_white(&mut self) {
        while self.peek().is_some_and(is_white) {
            self.at += 1;
        }
    }

    /// Scans the whole text: values, and what comes after each.
    fn text(&mut self) -> Result<(), ScanError> {
        loop {
            if self.value_opens_container()? {
                self.skip_white();
                if self.peek() != self.closers.last().copied() {
                    self.key()?;
                    continue;
                }
            }
            if !self.next_value_follows()? {
                return Ok(());
            }
            self.key()?;
        }
    }

    /// Scans a value up to its end or, of a container, its opening bracket.
    fn value_opens_container(&mut self) -> Result<bool, ScanError> {
        let closer = match self.peek() {
            Some(b'{') => b'}',
            Some(b'[') => b']',
            Some(b'"') => return self.string().map(|()| false),
            _ => return self.scalar().map(|()| false),
        };
        if self.closers.len() >= self.depth_max {
            return Err(ScanError::TooDeep(self.at));
        }
        self.closers.push(closer);
        self.at += 1;
        Ok(true)
    }

    /// Scans what follows a value: closing brackets, then a comma or the end of the text.
    fn next_value_follows(&mut self) -> Result<bool, ScanError> {
        loop {
            self.skip_white();
            let Some(closer) = self.closers.last().copied() else {
                return match self.peek() {
                    None => Ok(false),
                    Some(_) => Err(ScanError::More(self.at)),
                };
            };
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    self.skip_white();
                    return Ok(true);
                }
                Some(byte) if byte == closer => {
                    self.at += 1;
                    self.closers.pop();
                }
                _ => return self.wrong(),
            }
        }
    }

    /// Scans, in an object, the key and the colon before a value.
    fn key(&mut self) -> Result<(), ScanError> {
        if self.closers.last() != Some(&b'}') {
            return Ok(());
        }
        if self.peek() != Some(b'"') {
            return self.wrong();
        }
        self.string()?;
        self.skip_white();
        if self.peek() != Some(b':') {
            return self.wrong();
        }
        self.at += 1;
        self.skip_white();
        Ok(())
    }

    fn string(&mut self) -> Result<(), ScanError> {
        self.at += 1;
        loop {
            self.at += plain_len(self.rest());
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    let after = self.rest().get(1..).unwrap_or_default();
                    match escape_len(after) {
                        Some(len) => self.at += len,
                        None => return self.wrong(),
                    }
                }
                _ => return self.wrong(),
            }
        }
    }

    fn scalar(&mut self) -> Result<(), ScanError> {
        let rest = self.rest();
        let word: &[u8] = match rest {
            [b'0'..=b'9', ..] | [b'-', b'0'..=b'9', ..] => {
                return match number_len(rest) {
                    Some(len) => self.end_of_scalar(len),
                    None => self.wrong(),
                };
            }
            [b't', ..] => b"true",
            [b'f', ..] => b"false",
            [b'n', ..] => b"null",
            _ => return self.no_number(),
        };
        if rest.starts_with(word) {
            return self.end_of_scalar(word.len());
        }
        self.wrong()
    }

    fn no_number(&mut self) -> Result<(), ScanError> {
        let Some(len) = no_number_len(self.rest()) else {
            return self.wrong();
        };
        if self.words.len() == REPAIRS_MAX {
            return Err(ScanError::TooMany);
        }
        self.words.push(u32::try_from(self.at).unwrap_or(u32::MAX));
        self.end_of_scalar(len)
    }

    /// Checks that only white space or structure follows a number or a word.
    fn end_of_scalar(&mut self, len: usize) -> Result<(), ScanError> {
        self.at += len;
        match self.peek() {
            None | Some(b',' | b']' | b'}') => Ok(()),
            Some(byte) if is_white(byte) => Ok(()),
            Some(_) => self.wrong(),
        }
    }
}

/// Bytes of a string's text up to its end, an escape or a forbidden character, eight at a time.
fn plain_len(text: &[u8]) -> usize {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // A byte that is less than another one, of at most 128, has its highest bit set: the lowest
    // such is right.
    let below = |word: u64, byte: u64| word.wrapping_sub(EACH * byte) & !word & (EACH << 7);
    let is_equal = |word: u64, byte: u8| below(word ^ (EACH * u64::from(byte)), 1);
    let (words, _) = text.as_chunks();
    for (nth, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let ends = below(word, 0x20) | is_equal(word, b'"') | is_equal(word, b'\\');
        if ends != 0 {
            return nth * 8 + ends.trailing_zeros() as usize / 8;
        }
    }
    let done = words.len() * 8;
    let rest = text.get(done..).unwrap_or_default();
    let ends = |byte: &u8| matches!(byte, 0..0x20 | b'"' | b'\\');
    done + rest.iter().position(ends).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_wrong_byte_is_named() {
        let table: [(&str, usize); 22] = [
            ("", 0),
            ("  ", 2),
            ("{", 1),
            ("{\"a\":1,}", 7),
            ("{\"a\" 1}", 5),
            ("{\"a\":}", 5),
            ("{a:1}", 1),
            ("[1,]", 3),
            ("[1 2]", 3),
            ("[1", 2),
            ("[}", 1),
            ("{\"a\":1]", 6),
            ("[01]", 2),
            ("[1.]", 1),
            ("[tru]", 1),
            ("[truex]", 5),
            ("[nan]", 1),
            ("[+1]", 1),
            ("[\"a]", 4),
            ("[\"\\x\"]", 2),
            ("[\"\\u12g4\"]", 2),
            ("[\"a\nb\"]", 3),
        ];
        for (text, at) in table {
            let error = scan(text.as_bytes(), 0, 128).err();
            assert_eq!(error, Some(ScanError::Syntax(at)), "{text}");
        }
    }

    #[test]
    fn the_first_byte_behind_the_end_of_the_text_is_named() {
        let table = [
            ("[]]", 2),
            ("[] x", 3),
            ("{}{}", 2),
            ("{\"a\":[]}\n\n[", 10),
            ("1 2", 2),
        ];
        for (text, at) in table {
            let error = scan(text.as_bytes(), 0, 128).err();
            assert_eq!(error, Some(ScanError::More(at)), "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_end_of_plain_text_is_the_one_found_byte_by_byte(
            text in prop::collection::vec(prop_oneof![
                6 => any::<u8>(),
                1 => prop::sample::select(b"\"\\\x1f\x20\0\x80\x9f\xff".to_vec()),
                20 => Just(b'a'),
            ], 0..70)
        ) {
            let ends = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
            let end = text.iter().position(ends).unwrap_or(text.len());
            prop_assert_eq!(plain_len(&text), end);
        }
    }

    #[test]
    fn depth_is_counted_in_open_brackets() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(scan(nested(128).as_bytes(), 0, 128).is_ok());
        assert_eq!(
            scan(nested(129).as_bytes(), 0, 128).err(),
            Some(ScanError::TooDeep(128))
        );
        let brackets = "[".repeat(1 << 20);
        assert_eq!(
            scan(brackets.as_bytes(), 0, 128).err(),
            Some(ScanError::TooDeep(128))
        );
    }

    #[test]
    fn python_words_for_non_numbers_are_found() {
        let text = "[NaN, {\"a\": -Infinity}, Infinity, \"NaN\"]";
        let words = scan(text.as_bytes(), 0, 128).unwrap();
        let words = words.iter().map(|at| &text[*at as usize..]);
        let words: Vec<_> = words
            .map(|rest| &rest[..no_number_len(rest.as_bytes()).unwrap()])
            .collect();
        assert_eq!(words, ["NaN", "-Infinity", "Infinity"]);
    }
}
