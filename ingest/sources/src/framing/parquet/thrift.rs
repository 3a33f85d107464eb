//! Reader of Thrift's compact protocol, for checks of a file's claims before the library reads
//! them.
//!
//! The library allocates as many elements as a list claims. Here a list cannot have more elements
//! than bytes, as each takes at least one. (Protocol: thrift-compact-protocol.md of Apache Thrift.)

/// Most nested structs, lists and maps.
const DEPTH_MAX: usize = 32;

/// Types of values, as their headers number them.
pub(super) mod kind {
    pub(in super::super) const TRUE: u8 = 1;
    pub(in super::super) const FALSE: u8 = 2;
    pub(in super::super) const BYTE: u8 = 3;
    pub(in super::super) const I16: u8 = 4;
    pub(in super::super) const I32: u8 = 5;
    pub(in super::super) const I64: u8 = 6;
    pub(in super::super) const DOUBLE: u8 = 7;
    pub(in super::super) const BINARY: u8 = 8;
    pub(in super::super) const LIST: u8 = 9;
    pub(in super::super) const SET: u8 = 10;
    pub(in super::super) const MAP: u8 = 11;
    pub(in super::super) const STRUCT: u8 = 12;
    pub(in super::super) const UUID: u8 = 13;
}

/// Reads values in sequence; `None` for bytes that are truncated or no Thrift.
#[derive(Debug)]
pub(super) struct Thrift<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Thrift<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Number of bytes read.
    pub(super) fn read_bytes(&self) -> usize {
        self.at
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at)?;
        self.at += 1;
        Some(*byte)
    }

    fn skip_bytes(&mut self, bytes: u64) -> Option<()> {
        let at = self.at.checked_add(usize::try_from(bytes).ok()?)?;
        self.at = (at <= self.bytes.len()).then_some(at)?;
        Some(())
    }

    /// Reads an unsigned number of seven bits a byte.
    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// Reads a signed number.
    pub(super) fn number(&mut self) -> Option<i64> {
        let number = self.varint()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    /// Visits the fields of a struct by number and type; `visit` returns false for a value that it
    /// did not read, which is skipped.
    pub(super) fn fields(
        &mut self,
        mut visit: impl FnMut(&mut Self, i64, u8) -> Option<bool>,
    ) -> Option<()> {
        self.fields_at(DEPTH_MAX, &mut visit)
    }

    fn fields_at(
        &mut self,
        depth: usize,
        visit: &mut dyn FnMut(&mut Self, i64, u8) -> Option<bool>,
    ) -> Option<()> {
        let mut id = 0_i64;
        loop {
            let header = self.byte()?;
            if header == 0 {
                return Some(());
            }
            id = match header >> 4 {
                0 => self.number()?,
                more => id.checked_add(i64::from(more))?,
            };
            let kind = header & 0x0f;
            if !visit(self, id, kind)? {
                self.skip(kind, depth)?;
            }
        }
    }

    /// Reads the header of a list: type and number of the elements.
    pub(super) fn list(&mut self) -> Option<(u8, u64)> {
        let header = self.byte()?;
        let count = match header >> 4 {
            15 => self.varint()?,
            few => u64::from(few),
        };
        let left = self.bytes.len() - self.at;
        (count <= left as u64).then_some((header & 0x0f, count))
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            kind::TRUE | kind::FALSE => Some(()),
            kind::BYTE => self.skip_bytes(1),
            kind::I16..=kind::I64 => self.varint().map(drop),
            kind::DOUBLE => self.skip_bytes(8),
            kind::BINARY => {
                let length = self.varint()?;
                self.skip_bytes(length)
            }
            kind::LIST | kind::SET => {
                let (element, count) = self.list()?;
                (0..count).try_for_each(|_| self.skip_element(element, depth))
            }
            kind::MAP => self.skip_map(depth),
            kind::STRUCT => self.fields_at(depth, &mut |_, _, _| Some(false)),
            kind::UUID => self.skip_bytes(16),
            _ => None,
        }
    }

    fn skip_map(&mut self, depth: usize) -> Option<()> {
        let count = self.varint()?;
        if count == 0 {
            return Some(());
        }
        let kinds = self.byte()?;
        (0..count).try_for_each(|_| {
            self.skip_element(kinds >> 4, depth)?;
            self.skip_element(kinds & 0x0f, depth)
        })
    }

    /// Skips an element of a list, where a bool takes a byte.
    fn skip_element(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            kind::TRUE | kind::FALSE => self.skip_bytes(1),
            other => self.skip(other, depth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn zigzag_numbers_are_read_with_their_sign() {
        let table: [(&[u8], Option<i64>); 5] = [
            (&[0], Some(0)),
            (&[1], Some(-1)),
            (&[0xac, 0x02], Some(150)),
            (&[0x80], None),
            (&[0xff; 11], None),
        ];
        for (bytes, expected) in table {
            assert_eq!(Thrift::new(bytes).number(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_list_has_no_more_elements_than_bytes() {
        // A struct whose first field is a list with a claimed number of integers.
        let read = |bytes: &[u8]| Thrift::new(bytes).fields(|_, _, _| Some(false));
        assert_eq!(read(&[0x19, 0x25, 2, 4, 0]), Some(()));
        assert_eq!(
            read(&[0x19, 0xf5, 0xff, 0xff, 0xff, 0xff, 7, 2, 4, 0]),
            None
        );
        assert_eq!(read(&[0x1c; 1_000]), None, "deeper than anybody writes");
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_footer_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Thrift::new(&bytes).fields(|_, _, _| Some(false));
        }
    }
}
