//! Reads the cells of RowBinary rows, one after the other.

/// Most bytes of a number in LEB128.
const NUMBER_BYTES_MAX: usize = 10;
/// Highest value of the last of so many bytes: a number has 64 bits.
const LAST_BYTE_MAX: u64 = 1;

/// Place of a cell in the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    start: u32,
    end: u32,
}

/// Cell of a String.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextCell<'a> {
    pub(crate) text: &'a [u8],
    /// Place of the text with its length, as it is in a block, too.
    pub(crate) place: Place,
}

/// Rows that are being read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cells<'a> {
    rows: &'a [u8],
    rest: &'a [u8],
}

// === impl Place ===

impl Place {
    /// Bytes of the cell.
    #[inline]
    pub(crate) const fn len(self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    /// The cell in the rows.
    #[inline]
    pub(crate) fn of(self, rows: &[u8]) -> &[u8] {
        rows.get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }

    /// The text of a String without its length, and its position in the rows.
    #[inline]
    pub(crate) fn text_of(self, rows: &[u8]) -> (&[u8], usize) {
        let text = number(self.of(rows)).map_or(&[][..], |(_, text)| text);
        (text, (self.end as usize).saturating_sub(text.len()))
    }
}

// === impl Cells ===

impl<'a> Cells<'a> {
    /// A reader of rows of less than 4 GiB.
    pub(crate) const fn new(rows: &'a [u8]) -> Self {
        Self { rows, rest: rows }
    }

    /// Returns true if all cells are read.
    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes a cell of so many bytes; `None` if fewer are left.
    #[inline]
    pub(crate) fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (cell, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*cell)
    }

    /// Takes a String; `None` if it does not end within the rows.
    #[inline]
    pub(crate) fn text(&mut self) -> Option<TextCell<'a>> {
        let start = self.at()?;
        let (length, rest) = number(self.rest)?;
        let (text, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        let end = self.at()?;
        let place = Place { start, end };
        Some(TextCell { text, place })
    }

    /// Position of the next cell.
    #[inline]
    fn at(&self) -> Option<u32> {
        u32::try_from(self.rows.len() - self.rest.len()).ok()
    }
}

/// Splits off a number in LEB128; `None` if it does not end, or has more than 64 bits.
#[inline]
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (nth, &byte) in bytes.iter().take(NUMBER_BYTES_MAX).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if nth + 1 == NUMBER_BYTES_MAX && bits > LAST_BYTE_MAX {
            return None;
        }
        number |= bits << (7 * nth);
        if byte & 0x80 == 0 {
            return Some((number, bytes.get(nth + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_rows::rowbinary::put_varint;

    #[test]
    fn numbers_of_up_to_64_bits_are_read() {
        for value in [0, 1, 127, 128, 300, 1 << 32, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            bytes.push(9);
            assert_eq!(number(&bytes), Some((value, &[9][..])), "{value}");
        }
        let too_large = [[0xff_u8; 9].as_slice(), &[2]].concat();
        let endless = [[0x80_u8; 10].as_slice(), &[0]].concat();
        let table: [&[u8]; 4] = [b"", &[0x80], &too_large, &endless];
        for bytes in table {
            assert_eq!(number(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn cells_are_taken_one_after_the_other_and_none_beyond_the_end() {
        let rows = [7, 8, 3, b'a', b'b', b'c', 0, 2, b'd'];
        let mut cells = Cells::new(&rows);
        assert_eq!(cells.fixed::<2>(), Some([7, 8]));
        let text = cells.text().unwrap();
        assert_eq!(
            (text.text, text.place.of(&rows)),
            (&b"abc"[..], &rows[2..6])
        );
        assert_eq!(text.place.len(), 4);
        assert_eq!(text.place.text_of(&rows), (&b"abc"[..], 3));
        assert_eq!(cells.text().unwrap().text, b"");
        assert!(!cells.is_empty() && cells.text().is_none() && cells.fixed::<3>().is_none());
        assert_eq!(cells.fixed::<2>(), Some([2, b'd']));
        assert!(cells.is_empty() && cells.text().is_none());
    }
}
