//! Reader of Thrift's compact protocol, the encoding of Parquet's metadata: checks what a file
//! claims before the library reads it, and finds single numbers.
//!
//! The library allocates as many elements as a list claims. Here a list cannot have more elements
//! than bytes, as each takes at least one. (Protocol: thrift-compact-protocol.md of Apache Thrift.)

/// Most nested structs, lists and maps.
const DEPTH_MAX: usize = 32;

/// Types of values, as their headers number them.
#[allow(missing_docs, reason = "named after what they are")]
pub mod kind {
    pub const TRUE: u8 = 1;
    pub const FALSE: u8 = 2;
    pub const BYTE: u8 = 3;
    pub const I16: u8 = 4;
    pub const I32: u8 = 5;
    pub const I64: u8 = 6;
    pub const DOUBLE: u8 = 7;
    pub const BINARY: u8 = 8;
    pub const LIST: u8 = 9;
    pub const SET: u8 = 10;
    pub const MAP: u8 = 11;
    pub const STRUCT: u8 = 12;
    pub const UUID: u8 = 13;
}

/// Reads values in sequence; `None` for bytes that are truncated or no Thrift.
#[derive(Debug)]
pub struct Thrift<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Thrift<'a> {
    /// Reads from the start of bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Number of bytes read.
    #[must_use]
    pub fn read_bytes(&self) -> usize {
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
    pub fn varint(&mut self) -> Option<u64> {
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
    pub fn number(&mut self) -> Option<i64> {
        let number = self.varint()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    /// Visits the fields of a struct by number and type; `visit` returns false for a value that it
    /// did not read, which is skipped.
    pub fn fields(
        &mut self,
        mut visit: impl FnMut(&mut Self, i64, u8) -> Option<bool>,
    ) -> Option<()> {
        self.fields_at(DEPTH_MAX, &mut visit)
    }

    /// Finds the number in a field of a struct, and reads no further; `None` if it is missing.
    pub fn number_of_field(&mut self, sought: i64) -> Option<i64> {
        let mut found = None;
        self.fields(|thrift, id, kind| match kind {
            kind::I16..=kind::I64 if id == sought => {
                found = thrift.number();
                None
            }
            _ => Some(false),
        });
        found
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
    pub fn list(&mut self) -> Option<(u8, u64)> {
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

    #[test]
    fn a_field_is_found_behind_others_of_every_type() {
        let bytes = [
            &[0x15, 0x02][..],                           // 1: i32 = 1
            &[0x19, 0x2c, 0x15, 0x04, 0x00, 0x11, 0x00], // 2: list of two structures
            &[0x18, 0x02, b'h', b'i'],                   // 3: "hi"
            &[0x1b, 0x01, 0x85, 0x01, b'k', 0x06],       // 4: {"k": 3}
            &[0x19, 0x31, 1, 2, 1],                      // 5: [true, false, true]
            &[0x17, 0, 0, 0, 0, 0, 0, 0, 0],             // 6: 0.0
            &[0x06, 0x50, 0xd8, 0x04],                   // 40: i64 = 300, by its whole id
            &[0x00],
        ]
        .concat();
        let found = |bytes: &[u8], sought| Thrift::new(bytes).number_of_field(sought);
        assert_eq!(found(&bytes, 1), Some(1));
        assert_eq!(found(&bytes, 40), Some(300));
        assert_eq!(found(&bytes, 7), None);
        for cut in 0..bytes.len() - 1 {
            assert_eq!(found(&bytes[..cut], 7), None, "cut at {cut}");
        }
        let endless = [
            0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
        ];
        assert_eq!(found(&endless, 9), None, "a list of 2^63 booleans");
        assert_eq!(found(&[0x1c; 10_000], 9), None, "too deep");
        assert_eq!(found(&[0xff; 100], 9), None, "of no type");
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Thrift::new(&bytes).fields(|_, _, _| Some(false));
        }
    }
}
