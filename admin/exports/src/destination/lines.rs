//! Pieces of bytes, cut into lines.

use crate::error::ExportError;
use bytes::{Bytes, BytesMut};

/// The longest line in bytes; a request that events come in is smaller.
const LINE_BYTES_MAX: usize = 64 << 20;

/// Bytes that were not taken as lines yet: one piece and the beginning of a line at most.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    rest: BytesMut,
    /// So many bytes of `rest` have no end of a line.
    scanned: usize,
}

impl Lines {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// The next line that is whole, without its end.
    ///
    /// # Errors
    /// It is longer than anything that we export.
    pub(crate) fn next_line(&mut self) -> Result<Option<Bytes>, ExportError> {
        let unseen = self.rest.get(self.scanned..).unwrap_or_default();
        let Some(end) = memchr::memchr(b'\n', unseen) else {
            self.scanned = self.rest.len();
            if self.scanned > LINE_BYTES_MAX {
                return Err(ExportError::hopeless("A row is longer than 64 MiB."));
            }
            return Ok(None);
        };
        let mut line = self.rest.split_to(self.scanned + end + 1);
        self.scanned = 0;
        line.truncate(line.len() - 1);
        Ok(Some(line.freeze()))
    }

    /// Whether a line has begun that has not ended.
    pub(crate) fn is_within_line(&self) -> bool {
        !self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lines_are_the_same_however_the_bytes_are_cut(
            lines in proptest::collection::vec("[a-z]{0,9}", 0..20),
            cut in 1_usize..9,
        ) {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let mut cutter = Lines::default();
            let mut found = Vec::new();
            for piece in text.as_bytes().chunks(cut) {
                cutter.push(piece);
                while let Some(line) = cutter.next_line().unwrap() {
                    found.push(String::from_utf8(line.to_vec()).unwrap());
                }
            }
            prop_assert_eq!(found, lines);
            prop_assert!(!cutter.is_within_line());
        }
    }

    #[test]
    fn a_line_without_its_end_is_not_taken() {
        let mut lines = Lines::default();
        lines.push(b"a\nb");
        assert_eq!(lines.next_line().unwrap().unwrap(), "a");
        assert_eq!(lines.next_line().unwrap(), None);
        assert!(lines.is_within_line());
    }
}
