//! JSON byte by byte, for the exact place where it goes wrong.

use super::{Patch, Replacement};
use crate::index::{escape_len, is_white};
use crate::walk::number_len;

/// What is wrong, and at which byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Syntax(usize),
    TooDeep(usize),
    /// JSON, but neither an object nor an array.
    NotAContainer,
}

/// Reads a JSON text that begins at `start`; returns the words in it that no JSON has but that
/// Python writes for floats that are no numbers.
pub(super) fn scan(body: &[u8], start: usize, depth_max: usize) -> Result<Vec<Patch>, Fault> {
    let mut scan = Scan {
        body,
        at: start,
        closers: Vec::new(),
        depth_max,
        patches: Vec::new(),
    };
    scan.skip_white();
    let is_container = matches!(scan.peek(), Some(b'{' | b'['));
    scan.text()?;
    if !is_container {
        return Err(Fault::NotAContainer);
    }
    Ok(scan.patches)
}

struct Scan<'a> {
    body: &'a [u8],
    at: usize,
    /// What closes the containers that are open, innermost last.
    closers: Vec<u8>,
    depth_max: usize,
    patches: Vec<Patch>,
}

impl<'a> Scan<'a> {
    fn peek(&self) -> Option<u8> {
        self.body.get(self.at).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.body.get(self.at..).unwrap_or_default()
    }

    fn wrong<T>(&self) -> Result<T, Fault> {
        Err(Fault::Syntax(self.at))
    }

    fn skip_white(&mut self) {
        while self.peek().is_some_and(is_white) {
            self.at += 1;
        }
    }

    /// The whole text: values, and what comes after each.
    fn text(&mut self) -> Result<(), Fault> {
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

    /// Reads a value up to its end or, of a container, its opening bracket.
    fn value_opens_container(&mut self) -> Result<bool, Fault> {
        let closer = match self.peek() {
            Some(b'{') => b'}',
            Some(b'[') => b']',
            Some(b'"') => return self.string().map(|()| false),
            _ => return self.scalar().map(|()| false),
        };
        if self.closers.len() >= self.depth_max {
            return Err(Fault::TooDeep(self.at));
        }
        self.closers.push(closer);
        self.at += 1;
        Ok(true)
    }

    /// Reads what follows a value: closing brackets, then a comma or the end of the text.
    fn next_value_follows(&mut self) -> Result<bool, Fault> {
        loop {
            self.skip_white();
            let Some(closer) = self.closers.last().copied() else {
                return match self.peek() {
                    None => Ok(false),
                    Some(_) => self.wrong(),
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

    /// In an object: the key and the colon before a value.
    fn key(&mut self) -> Result<(), Fault> {
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

    fn string(&mut self) -> Result<(), Fault> {
        self.at += 1;
        loop {
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
                Some(0..0x20) | None => return self.wrong(),
                Some(_) => self.at += 1,
            }
        }
    }

    fn scalar(&mut self) -> Result<(), Fault> {
        let rest = self.rest();
        for word in ["true", "false", "null"] {
            if rest.starts_with(word.as_bytes()) {
                return self.end_of_scalar(word.len());
            }
        }
        for word in ["NaN", "Infinity", "-Infinity"] {
            if rest.starts_with(word.as_bytes()) {
                self.patches.push(Patch {
                    start: self.at,
                    end: self.at + word.len(),
                    with: Replacement::Null,
                });
                return self.end_of_scalar(word.len());
            }
        }
        match number_len(rest) {
            Some(len) => self.end_of_scalar(len),
            None => self.wrong(),
        }
    }

    /// After a number or a word only white space or structure may follow.
    fn end_of_scalar(&mut self, len: usize) -> Result<(), Fault> {
        self.at += len;
        match self.peek() {
            None | Some(b',' | b']' | b'}') => Ok(()),
            Some(byte) if is_white(byte) => Ok(()),
            Some(_) => self.wrong(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wrong_byte_is_named() {
        let table: [(&str, usize); 24] = [
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
            ("[]]", 2),
            ("[] x", 3),
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
            let fault = scan(text.as_bytes(), 0, 128).err();
            assert_eq!(fault, Some(Fault::Syntax(at)), "{text}");
        }
    }

    #[test]
    fn depth_is_counted_in_open_brackets() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(scan(nested(128).as_bytes(), 0, 128).is_ok());
        assert_eq!(
            scan(nested(129).as_bytes(), 0, 128).err(),
            Some(Fault::TooDeep(128))
        );
        let brackets = "[".repeat(1 << 20);
        assert_eq!(
            scan(brackets.as_bytes(), 0, 128).err(),
            Some(Fault::TooDeep(128))
        );
    }

    #[test]
    fn words_of_python_are_found() {
        let text = "[NaN, {\"a\": -Infinity}, Infinity, \"NaN\"]";
        let patches = scan(text.as_bytes(), 0, 128).unwrap();
        let words: Vec<&str> = patches.iter().map(|p| &text[p.start..p.end]).collect();
        assert_eq!(words, ["NaN", "-Infinity", "Infinity"]);
    }
}
