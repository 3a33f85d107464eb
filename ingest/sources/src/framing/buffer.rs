//! Buffer for the part of a file that is in memory.

use crate::Input;
use std::io::{self, Read};

/// Least number of bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// Reads the bytes of a file as they are needed.
#[derive(Debug)]
pub(crate) struct Buffer {
    input: Input,
    /// Buffer whose unread bytes are from `start` to `end`.
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

    /// Bytes that were read and not consumed.
    pub(crate) fn unread(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
    }

    /// Bytes that were consumed last: they stay until the next [`Buffer::fill`].
    pub(crate) fn consumed(&self, bytes_back: usize, length: usize) -> &[u8] {
        let from = self.start.saturating_sub(bytes_back);
        self.bytes.get(from..from + length).unwrap_or_default()
    }

    /// Reads more bytes; returns false at the end of the file.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        if self.is_at_end {
            return Ok(false);
        }
        self.reserve();
        let read = loop {
            let free = self.bytes.get_mut(self.end..).unwrap_or_default();
            match self.input.read(free) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.end += read;
        self.is_at_end = read == 0;
        Ok(!self.is_at_end)
    }

    /// Makes space for a read: moves the unread bytes to the front, and grows the buffer with them,
    /// so that a long record is moved only a few times.
    fn reserve(&mut self) {
        if self.bytes.len() - self.end >= READ_BYTES / 4 {
            return;
        }
        self.bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let capacity = READ_BYTES.max(2 * self.end);
        if self.bytes.is_empty() {
            // The system gives zeros, which is faster than to write them.
            self.bytes = vec![0; capacity];
        } else if self.bytes.len() < capacity {
            self.bytes.resize(capacity, 0);
        }
    }
}
