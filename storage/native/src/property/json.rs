//! Way through a JSON text to the values at some paths.
//!
//! Nothing is parsed on the way: what is not looked for is passed by its brackets and quotes. A
//! value is parsed when it is found, by its type.

use super::plan::Keys;
use super::text::with_text;
use memchr::memchr2;
use std::ops::Range;

/// Calls `found` for each value at one of the paths, with its column and its place in the text. Of
/// a key that an object has twice the first value counts. Ends early where the text is no JSON.
pub(super) fn find(text: &[u8], keys: &Keys, found: &mut impl FnMut(usize, Range<usize>)) {
    let mut scanner = Scanner { text, at: 0 };
    scanner.skip_space();
    if scanner.peek() == Some(b'{') {
        // What is behind the last value that is looked for is not read.
        let _ = scanner.object(keys, found);
    }
}

/// Reader of a text. Its methods return `None` where the text is no JSON.
struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// Passes an object, whose bracket is next, up to the last key that is looked for.
    fn object(
        &mut self,
        keys: &Keys,
        found: &mut impl FnMut(usize, Range<usize>),
    ) -> Option<Passed> {
        self.at += 1;
        self.skip_space();
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(Passed::Whole);
        }
        let (mut seen, mut left) = (0_u64, keys.len());
        loop {
            let name = self.string()?;
            self.skip_space();
            self.take(b':')?;
            self.skip_space();
            let start = self.at;
            match with_text(name, |name| keys.find(name)).flatten() {
                Some((place, key)) if seen & (1 << place) == 0 => {
                    seen |= 1 << place;
                    left -= 1;
                    match self.peek()? == b'{' && !key.below.is_empty() {
                        true => self.whole_object(&key.below, found)?,
                        false => self.value()?,
                    }
                    for column in &key.columns {
                        found(*column, start..self.at);
                    }
                    if left == 0 {
                        return Some(Passed::UpToTheLast);
                    }
                }
                _ => self.value()?,
            }
            self.skip_space();
            match self.pop()? {
                b',' => self.skip_space(),
                b'}' => return Some(Passed::Whole),
                _ => return None,
            }
        }
    }

    /// Passes an object up to its end.
    fn whole_object(
        &mut self,
        keys: &Keys,
        found: &mut impl FnMut(usize, Range<usize>),
    ) -> Option<()> {
        match self.object(keys, found)? {
            Passed::Whole => Some(()),
            Passed::UpToTheLast => self.brackets(1),
        }
    }

    /// Passes a value.
    fn value(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.string().map(drop),
            b'{' | b'[' => self.brackets(0),
            _ => {
                let rest = self.text.get(self.at..)?;
                let is_end =
                    |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
                let length = rest.iter().position(is_end).unwrap_or(rest.len());
                self.at += length;
                (length > 0).then_some(())
            }
        }
    }

    /// Passes brackets and what is between them, until so many that are open are closed.
    fn brackets(&mut self, mut open: usize) -> Option<()> {
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => open += 1,
                b'}' | b']' => open = open.checked_sub(1)?,
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                return Some(());
            }
        }
    }

    /// Passes a string, and returns it with its quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        let rest = self.text.get(self.at..)?;
        if rest.first() != Some(&b'"') {
            return None;
        }
        let mut length = 1;
        loop {
            length += memchr2(b'"', b'\\', rest.get(length..)?)?;
            if rest.get(length) == Some(&b'"') {
                let string = rest.get(..=length)?;
                self.at += string.len();
                return Some(string);
            }
            // A backslash, and what it escapes.
            length += 2;
        }
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline]
    fn pop(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    #[inline]
    fn take(&mut self, expected: u8) -> Option<()> {
        (self.pop()? == expected).then_some(())
    }

    #[inline]
    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }
}

/// Part of an object that was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passed {
    Whole,
    UpToTheLast,
}
