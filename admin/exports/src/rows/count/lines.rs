//! Counts rows of one line each.

use super::error::CountError;

/// Counter of line ends.
#[derive(Debug, Default)]
pub(super) struct LineCounter {
    rows: u64,
    /// True if bytes have followed the last line end.
    is_within: bool,
}

impl LineCounter {
    pub(super) fn update(&mut self, piece: &[u8]) {
        self.rows += memchr::memchr_iter(b'\n', piece).count() as u64;
        if let Some(last) = piece.last() {
            self.is_within = *last != b'\n';
        }
    }

    pub(super) const fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) const fn finish(self) -> Result<u64, CountError> {
        if self.is_within {
            return Err(CountError::Cut);
        }
        Ok(self.rows)
    }
}
