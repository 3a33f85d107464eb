//! Validates a downloaded zip by its end-of-central-directory record.

use super::{Sink, write_result};
use crate::FetchError;

/// Bytes of an end-of-central-directory record without a comment.
const END_BYTES: usize = 22;
/// Bytes of the longest end-of-central-directory record.
const TAIL_BYTES_MAX: usize = END_BYTES + u16::MAX as usize;
const END_SIGNATURE: &[u8] = b"PK\x05\x06";
/// Value of a field whose size is in the ZIP64 record.
const IN_ZIP64: u32 = u32::MAX;

/// Writes a part and keeps its end for validation.
pub(super) struct ZipValidator<'a> {
    into: Sink<'a>,
    length: u64,
    tail: Vec<u8>,
}

impl<'a> ZipValidator<'a> {
    pub(super) fn new(into: Sink<'a>) -> Self {
        Self {
            into,
            length: 0,
            tail: Vec::new(),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), FetchError> {
        if self.length == 0 && !bytes.starts_with(b"P") {
            return Err(FetchError::retryable(
                "The service sent something else than a zip.",
            ));
        }
        self.length += bytes.len() as u64;
        self.tail.extend_from_slice(bytes);
        if self.tail.len() > 4 * TAIL_BYTES_MAX {
            let excess = self.tail.len() - TAIL_BYTES_MAX;
            self.tail.drain(..excess);
        }
        write_result(self.into.write_all(bytes))
    }

    /// Ends the part; fails if the response ended before the zip.
    pub(super) fn finish(self) -> Result<(), FetchError> {
        if self.is_whole() {
            return Ok(());
        }
        Err(FetchError::retryable(
            "The zip has no end: the transfer broke off.",
        ))
    }

    fn is_whole(&self) -> bool {
        let finder = memchr::memmem::FinderRev::new(END_SIGNATURE);
        let mut before = self.tail.as_slice();
        while let Some(at) = finder.rfind(before) {
            if self.is_end_record(self.tail.get(at..).unwrap_or_default()) {
                return true;
            }
            before = self.tail.get(..at).unwrap_or_default();
        }
        false
    }

    /// Returns true if `end` is an end-of-central-directory record that ends with the file, with
    /// the directory just before it.
    fn is_end_record(&self, end: &[u8]) -> bool {
        let number = |at: usize| {
            let bytes = end.get(at..)?.first_chunk::<4>()?;
            Some(u32::from_le_bytes(*bytes))
        };
        let comment = end.get(20..).and_then(|rest| rest.first_chunk::<2>());
        let (Some(size), Some(offset), Some(comment)) = (number(12), number(16), comment) else {
            return false;
        };
        let is_at_end = END_BYTES + usize::from(u16::from_le_bytes(*comment)) == end.len();
        let before = self.length - end.len() as u64;
        let is_in_place =
            size == IN_ZIP64 || offset == IN_ZIP64 || u64::from(size) + u64::from(offset) == before;
        is_at_end && is_in_place
    }
}
