//! Primitives of RowBinary: fixed-width little-endian numbers, and byte strings after their length
//! as a LEB128 number (<https://clickhouse.com/docs/interfaces/formats/RowBinary>).

use uuid::Uuid;

/// Appends a number in LEB128.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a String.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a String that is given in pieces, without joining them first.
#[inline]
pub fn put_pieces(out: &mut Vec<u8>, pieces: &[&[u8]]) {
    put_varint(out, pieces.iter().map(|piece| piece.len() as u64).sum());
    for piece in pieces {
        out.extend_from_slice(piece);
    }
}

/// Appends an Int64 or a DateTime64.
#[inline]
pub fn put_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a UInt32.
#[inline]
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a Bool.
#[inline]
pub fn put_bool(out: &mut Vec<u8>, value: bool) {
    out.push(u8::from(value));
}

/// Appends a UUID: its high half, then its low half, each little endian.
#[inline]
pub fn put_uuid(out: &mut Vec<u8>, uuid: Uuid) {
    let (high, low) = uuid.as_u64_pair();
    out.extend_from_slice(&high.to_le_bytes());
    out.extend_from_slice(&low.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_seven_bits_a_byte() {
        let table: [(u64, &[u8]); 5] = [
            (0, &[0]),
            (127, &[0x7f]),
            (128, &[0x80, 1]),
            (300, &[0xac, 2]),
            (
                u64::MAX,
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            ),
        ];
        for (value, expected) in table {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out, expected, "{value}");
        }
    }

    #[test]
    fn pieces_read_back_as_one_string() {
        let mut joined = Vec::new();
        let mut pieces = Vec::new();
        put_bytes(&mut joined, b"abcdef");
        put_pieces(&mut pieces, &[b"ab", b"", b"cdef"]);
        assert_eq!(joined, pieces);
    }
}
