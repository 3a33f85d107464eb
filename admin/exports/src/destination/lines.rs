//! Splits pieces of bytes into lines.

use crate::error::ExportError;
use bytes::{Bytes, BytesMut};

/// Longest line in bytes; requests with events are smaller.
const LINE_BYTES_MAX: usize = 64 << 20;

/// Splitter of bytes into lines. It holds one piece and the beginning of a line at most.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    rest: BytesMut,
    /// Number of bytes at the start of `rest` that are known to have no line end.
    scanned: usize,
}

impl Lines {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// Takes the next complete line, without its end.
    ///
    /// # Errors
    /// The line is longer than any exported row.
    pub(crate) fn next_line(&mut self) -> Result<Option<Bytes>, ExportError> {
        let unseen = self.rest.get(self.scanned..).unwrap_or_default();
        let Some(end) = memchr::memchr(b'\n', unseen) else {
            self.scanned = self.rest.len();
            if self.scanned > LINE_BYTES_MAX {
                return Err(ExportError::permanent("A row is longer than 64 MiB."));
            }
            return Ok(None);
        };
        let mut line = self.rest.split_to(self.scanned + end + 1);
        self.scanned = 0;
        line.truncate(line.len() - 1);
        Ok(Some(line.freeze()))
    }

    /// Returns true if a line has begun and not ended.
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
        fn lines_do_not_depend_on_how_bytes_are_cut(
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
    fn an_unfinished_line_is_not_returned() {
        let mut lines = Lines::default();
        lines.push(b"a\nb");
        assert_eq!(lines.next_line().unwrap().unwrap(), "a");
        assert_eq!(lines.next_line().unwrap(), None);
        assert!(lines.is_within_line());
    }
}
