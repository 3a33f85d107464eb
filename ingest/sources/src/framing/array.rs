//! Framing of JSON arrays: `[{…},{…}]`, our own batch `{"api_key":…,"batch":[{…}]}`, and several of
//! these in sequence. Elements are found one by one, however long the array is.

use super::buffer::Buffer;
use crate::scan::{blank_end, string_end, value_end};
use crate::{FileError, Framing, Input, Position, Record};

/// Most bytes of an element, as of a line.
const ELEMENT_BYTES_MAX: usize = 32 << 20;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Reads the elements of a file's arrays.
#[derive(Debug)]
pub struct Elements {
    buffer: Buffer,
    at: Position,
    is_inside: bool,
    /// Outside an array: true if the last name was `batch`; `None` if no object is open.
    is_batch: Option<bool>,
}

impl Elements {
    /// Opens a file at a position. One after the beginning is inside an array.
    ///
    /// # Errors
    /// The file cannot be read, or ends before the position.
    pub fn open(mut input: Input, at: Position) -> Result<Self, FileError> {
        input.skip_to(at.offset)?;
        Ok(Self {
            buffer: Buffer::new(input),
            at,
            is_inside: at.ordinal > 0,
            is_batch: None,
        })
    }

    fn skip(&mut self, bytes: usize) {
        self.buffer.consume(bytes);
        self.at.offset += bytes as u64;
    }

    /// Skips white space; returns the byte after it.
    fn peek(&mut self) -> Result<Option<u8>, FileError> {
        loop {
            let unread = self.buffer.unread();
            let blank = blank_end(unread, 0);
            let found = unread.get(blank).copied();
            self.at.line += lines(unread.get(..blank).unwrap_or_default());
            self.skip(blank);
            if found.is_some() || !self.buffer.fill()? {
                return Ok(found);
            }
        }
    }

    /// Length of the next value.
    fn value(&mut self) -> Result<usize, FileError> {
        loop {
            let unread = self.buffer.unread();
            if let Some(end) = value_end(unread, 0) {
                return Ok(end);
            }
            if unread.len() > ELEMENT_BYTES_MAX {
                return Err(self.malformed("An element is longer than 32 MiB, or never ends."));
            }
            // The scan starts again at the value's beginning, so read twice as much before.
            let wanted = 2 * unread.len();
            let mut is_read = false;
            while self.buffer.unread().len() <= wanted && self.buffer.fill()? {
                is_read = true;
            }
            if !is_read {
                return Err(self.malformed("The file ends in the middle of an element."));
            }
        }
    }

    fn malformed(&self, message: &str) -> FileError {
        FileError::Malformed {
            offset: self.at.offset,
            message: message.to_owned(),
        }
    }

    /// Skips to the next array; returns false at the end of the file.
    fn enter(&mut self) -> Result<bool, FileError> {
        while self.buffer.unread().len() < BOM.len() && self.buffer.fill()? {}
        if self.at.offset == 0 && self.buffer.unread().starts_with(BOM) {
            self.skip(BOM.len());
        }
        while let Some(byte) = self.peek()? {
            match (byte, self.is_batch) {
                (b'[', None | Some(true)) => {
                    self.skip(1);
                    self.is_inside = true;
                    return Ok(true);
                }
                (b'{', None) => {
                    self.skip(1);
                    self.is_batch = Some(false);
                }
                // Also after an array that was opened in its middle.
                (b'}', _) => {
                    self.skip(1);
                    self.is_batch = None;
                }
                (b',', _) => {
                    self.skip(1);
                    self.is_batch = Some(false);
                }
                (b'"', Some(_)) => self.name()?,
                (_, Some(_)) => {
                    let length = self.value()?;
                    self.skip(length);
                }
                (_, None) => {
                    return Err(self.malformed(
                        "There is neither a JSON array nor an object with `batch` here.",
                    ));
                }
            }
        }
        Ok(false)
    }

    /// Skips a name with its colon, or a text that is a value.
    fn name(&mut self) -> Result<(), FileError> {
        let length = self.value()?;
        let is_batch = self.buffer.unread().get(..length) == Some(b"\"batch\"");
        self.skip(length);
        if self.peek()? == Some(b':') {
            self.skip(1);
            self.is_batch = Some(is_batch);
        }
        Ok(())
    }
}

impl Framing for Elements {
    fn next(&mut self) -> Result<Option<Record<'_>>, FileError> {
        loop {
            if !self.is_inside && !self.enter()? {
                return Ok(None);
            }
            match self.peek()? {
                None => return Err(self.malformed("The file ends in the middle of an array.")),
                Some(b',') => self.skip(1),
                Some(b']') => {
                    self.skip(1);
                    self.is_inside = false;
                    if self.is_batch.is_some() {
                        self.is_batch = Some(false);
                    }
                }
                Some(_) => break,
            }
        }
        let at = self.at;
        let length = self.value()?;
        if length == 0 {
            return Err(self.malformed("There is no JSON here."));
        }
        self.skip(length);
        self.at.ordinal += 1;
        let raw = self.buffer.consumed(length, length);
        self.at.line += lines(raw);
        Ok(Some(Record {
            at,
            next: self.at,
            raw,
            error: None,
        }))
    }
}

fn lines(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}

/// Returns true if a file with this beginning has arrays, not lines.
pub(super) fn begins(beginning: &[u8]) -> bool {
    let beginning = beginning.strip_prefix(BOM).unwrap_or(beginning);
    let mut at = blank_end(beginning, 0);
    match beginning.get(at) {
        Some(b'[') => return true,
        Some(b'{') => at += 1,
        _ => return false,
    }
    loop {
        at = blank_end(beginning, at);
        if beginning.get(at) == Some(&b',') {
            at = blank_end(beginning, at + 1);
        }
        if beginning.get(at) != Some(&b'"') {
            return false;
        }
        let Some(end) = string_end(beginning, at + 1) else {
            return false;
        };
        let colon = blank_end(beginning, end);
        let value = blank_end(beginning, colon + 1);
        let is_batch = beginning.get(at..end) == Some(b"\"batch\"");
        if is_batch && beginning.get(value) == Some(&b'[') {
            return true;
        }
        match value_end(beginning, value) {
            Some(end) => at = end,
            None => return false,
        }
    }
}
