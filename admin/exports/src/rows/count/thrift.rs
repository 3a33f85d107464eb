//! Finds a number in a structure of [Thrift's compact protocol][spec].
//!
//! [spec]: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md

/// Levels to which structures may nest; Parquet's have ten at most.
const DEPTH_MAX: u8 = 32;

const BOOL_TRUE: u8 = 1;
const BOOL_FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// Finds the integer in field `sought` of the structure that the bytes begin with. `None` if it is
/// missing, or the bytes are no structure.
pub(super) fn integer_of_field(bytes: &[u8], sought: i64) -> Option<i64> {
    let mut reader = Reader { rest: bytes };
    let mut id = 0;
    loop {
        let kind = reader.field(&mut id)??;
        if id == sought && matches!(kind, I16 | I32 | I64) {
            return reader.zigzag();
        }
        reader.skip(kind, DEPTH_MAX)?;
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn bytes(&mut self, count: usize) -> Option<()> {
        self.rest = self.rest.get(count..)?;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }

    /// Type of the next field, whose id follows from the last one; `Some(None)` at the end of the
    /// structure.
    #[expect(clippy::option_option, reason = "no more bytes is not no more fields")]
    fn field(&mut self, id: &mut i64) -> Option<Option<u8>> {
        let head = self.byte()?;
        let kind = head & 0x0f;
        if kind == 0 {
            return Some(None);
        }
        *id = match head >> 4 {
            0 => self.zigzag()?,
            delta => id.checked_add(i64::from(delta))?,
        };
        Some(Some(kind))
    }

    fn skip(&mut self, kind: u8, depth: u8) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            BOOL_TRUE | BOOL_FALSE => Some(()),
            BYTE => self.bytes(1),
            I16 | I32 | I64 => self.varint().map(|_| ()),
            DOUBLE => self.bytes(8),
            BINARY => {
                let length = self.varint()?;
                self.bytes(usize::try_from(length).ok()?)
            }
            LIST | SET => self.skip_list(depth),
            MAP => self.skip_map(depth),
            STRUCT => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth)?;
                }
                Some(())
            }
            _ => None,
        }
    }

    fn skip_list(&mut self, depth: u8) -> Option<()> {
        let head = self.byte()?;
        let length = match head >> 4 {
            15 => self.varint()?,
            short => u64::from(short),
        };
        for _ in 0..length {
            self.skip_element(head & 0x0f, depth)?;
        }
        Some(())
    }

    fn skip_map(&mut self, depth: u8) -> Option<()> {
        let length = self.varint()?;
        if length == 0 {
            return Some(());
        }
        let kinds = self.byte()?;
        for _ in 0..length {
            self.skip_element(kinds >> 4, depth)?;
            self.skip_element(kinds & 0x0f, depth)?;
        }
        Some(())
    }

    /// Skips an element of a collection, in which a boolean takes a byte of its own.
    fn skip_element(&mut self, kind: u8, depth: u8) -> Option<()> {
        match kind {
            BOOL_TRUE | BOOL_FALSE => self.bytes(1),
            _ => self.skip(kind, depth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(integer_of_field(&bytes, 1), Some(1));
        assert_eq!(integer_of_field(&bytes, 40), Some(300));
        assert_eq!(integer_of_field(&bytes, 7), None);
        for cut in 0..bytes.len() - 1 {
            assert_eq!(integer_of_field(&bytes[..cut], 7), None, "cut at {cut}");
        }
    }

    #[test]
    fn too_deep_and_endless_bytes_have_no_field() {
        assert_eq!(integer_of_field(&[0x1c; 10_000], 9), None);
        assert_eq!(integer_of_field(&[0xff; 100], 9), None);
        // A list that claims to have 2^63 booleans.
        let endless = [
            0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
        ];
        assert_eq!(integer_of_field(&endless, 9), None);
    }
}
