//! A zip on its way: whole when it ends with its directory's end, and that says where it is.

use super::{Sink, staged};
use crate::FetchError;

/// Of a directory's end without a comment.
const END_BYTES: usize = 22;
/// The longest directory's end.
const TAIL_BYTES_MAX: usize = END_BYTES + u16::MAX as usize;
const END_SIGNATURE: &[u8] = b"PK\x05\x06";
/// Where sizes are too large for their fields, which are in another record then.
const IN_ZIP64: u32 = u32::MAX;

/// Passes a part on and remembers its end.
pub(super) struct Archive<'a> {
    into: Sink<'a>,
    length: u64,
    tail: Vec<u8>,
}

impl<'a> Archive<'a> {
    pub(super) fn new(into: Sink<'a>) -> Self {
        Self {
            into,
            length: 0,
            tail: Vec::new(),
        }
    }

    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(), FetchError> {
        if self.length == 0 && !bytes.starts_with(b"P") {
            return Err(FetchError::again(
                "The service sent something else than a zip.",
            ));
        }
        self.length += bytes.len() as u64;
        self.tail.extend_from_slice(bytes);
        if self.tail.len() > 4 * TAIL_BYTES_MAX {
            let passed = self.tail.len() - TAIL_BYTES_MAX;
            self.tail.drain(..passed);
        }
        staged(self.into.write_all(bytes))
    }

    /// At the end of the answer: whether it is the end of the zip.
    pub(super) fn finish(self) -> Result<(), FetchError> {
        if self.is_whole() {
            return Ok(());
        }
        Err(FetchError::again(
            "The zip has no end: the transfer broke off.",
        ))
    }

    fn is_whole(&self) -> bool {
        let finder = memchr::memmem::FinderRev::new(END_SIGNATURE);
        let mut before = self.tail.as_slice();
        while let Some(place) = finder.rfind(before) {
            if self.ends(self.tail.get(place..).unwrap_or_default()) {
                return true;
            }
            before = self.tail.get(..place).unwrap_or_default();
        }
        false
    }

    /// Whether this is the directory's end, up to the end of the file, and the directory just before it.
    fn ends(&self, end: &[u8]) -> bool {
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
