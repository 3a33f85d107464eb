//! The part of a file that is in memory.

use crate::Input;
use std::io::{self, Read};

/// How much is read at once, at least.
const READ_BYTES: usize = 256 << 10;

/// Bytes of a file from somewhere on, read as they are needed.
#[derive(Debug)]
pub(crate) struct Buffer {
    input: Input,
    /// Room for what was read; what is unread lies from `start` to `end`.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    is_at_end: bool,
}

impl Buffer {
    pub(crate) fn new(input: Input) -> Self {
        Self {
            input,
            bytes: Vec::new(),
            start: 0,
            end: 0,
            is_at_end: false,
        }
    }

    /// What was read and is not consumed.
    pub(crate) fn unread(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
    }

    /// Bytes that were consumed lately: nothing is moved before the next [`Buffer::fill`].
    pub(crate) fn consumed(&self, bytes_back: usize, length: usize) -> &[u8] {
        let from = self.start.saturating_sub(bytes_back);
        self.bytes.get(from..from + length).unwrap_or_default()
    }

    /// Reads on; false at the end of the file.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        if self.is_at_end {
            return Ok(false);
        }
        self.make_room();
        let read = loop {
            let room = self.bytes.get_mut(self.end..).unwrap_or_default();
            match self.input.read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.end += read;
        self.is_at_end = read == 0;
        Ok(!self.is_at_end)
    }

    /// What is unread goes to the front, and the room grows with it, so that what is longer than a read is moved a few
    /// times only.
    fn make_room(&mut self) {
        if self.bytes.len() - self.end >= READ_BYTES / 4 {
            return;
        }
        self.bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let room = READ_BYTES.max(2 * self.end);
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
    }
}
