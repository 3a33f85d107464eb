//! Counts rows of CSV (RFC 4180): one row per line, except for line ends between quotes; the first
//! line is the header.

use super::error::CountError;

/// Counter of line ends outside of quotes.
#[derive(Debug, Default)]
pub(super) struct CsvCounter {
    lines: u64,
    /// True between quotes; a doubled quote leaves and comes back.
    is_quoted: bool,
    /// True if bytes have followed the last line end.
    is_within: bool,
}

impl CsvCounter {
    pub(super) fn update(&mut self, piece: &[u8]) {
        let mut from = 0;
        for at in memchr::memchr2_iter(b'"', b'\n', piece) {
            let is_quote = piece.get(at) == Some(&b'"');
            if is_quote {
                self.is_quoted = !self.is_quoted;
            } else if !self.is_quoted {
                self.lines += 1;
                from = at + 1;
                self.is_within = false;
            }
        }
        self.is_within |= from < piece.len();
    }

    /// Rows so far, without the header line.
    pub(super) const fn rows(&self) -> u64 {
        self.lines.saturating_sub(1)
    }

    pub(super) const fn finish(self) -> Result<u64, CountError> {
        if self.is_quoted || self.is_within || self.lines == 0 {
            return Err(CountError::Cut);
        }
        Ok(self.rows())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_between_quotes_end_no_row() {
        let table = [
            ("a,b\r\n", Ok(0)),
            ("a\n1\n2\n", Ok(2)),
            ("a\n\"x\ny\"\n", Ok(1)),
            ("a\n\"x\"\"\n\"\"y\"\n\"z\"\n", Ok(2)),
            ("\"a\nb\"\n1\n", Ok(1)),
            ("", Err(CountError::Cut)),
            ("a\n1", Err(CountError::Cut)),
            ("a\n\"1\n", Err(CountError::Cut)),
        ];
        for (text, expected) in table {
            for cut in 0..=text.len() {
                let mut counter = CsvCounter::default();
                counter.update(&text.as_bytes()[..cut]);
                counter.update(&text.as_bytes()[cut..]);
                assert_eq!(counter.finish(), expected, "{text:?} cut at {cut}");
            }
        }
    }
}
