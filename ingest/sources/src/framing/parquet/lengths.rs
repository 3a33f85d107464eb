//! Reads delta-packed lengths of texts, and bounds the bytes of the decoded texts.
//!
//! A text of `DELTA_BYTE_ARRAY` is a prefix of the one before it and bytes of its own, so a page of
//! some KB may hold texts of GB. The count here equals the library's for the same bytes. (Format:
//! Encodings.md of Apache Parquet, `DELTA_BINARY_PACKED`: the sizes of a block and its parts, the
//! count, the first; then blocks.)

use millrace_rows::thrift::Thrift;

/// Most bits of a difference that the library accepts.
const WIDTH_MAX: u8 = 32;

/// Reads lengths in sequence.
#[derive(Debug)]
struct Lengths<'a> {
    packed: &'a [u8],
    /// Offset of the next part.
    at: usize,
    parts: usize,
    part_values: u64,
    /// Widths of the parts of this block that are still to be read.
    widths: &'a [u8],
    difference_min: i32,
    width: u8,
    /// Offset of the next difference, in bits.
    bit: usize,
    left_in_part: u64,
    left: u64,
    last: i32,
    is_first: bool,
}

impl<'a> Lengths<'a> {
    /// Starts to read lengths; `None` if they are more than `count_max`.
    fn new(packed: &'a [u8], count_max: u64) -> Option<Self> {
        let mut thrift = Thrift::new(packed);
        let block = thrift.varint()?;
        let parts = thrift.varint()?;
        let count = thrift.varint()?;
        let first = i32::try_from(thrift.number()?).ok()?;
        let part_values = block.checked_div(parts)?;
        (count <= count_max && part_values > 0).then_some(Self {
            packed,
            at: thrift.read_bytes(),
            parts: usize::try_from(parts).ok()?,
            part_values,
            widths: &[],
            difference_min: 0,
            width: 0,
            bit: 0,
            left_in_part: 0,
            left: count,
            last: first,
            is_first: true,
        })
    }

    /// Reads the next length; `None` at the end, or if the bytes are damaged.
    fn next(&mut self) -> Option<i32> {
        self.left = self.left.checked_sub(1)?;
        if std::mem::take(&mut self.is_first) {
            return Some(self.last);
        }
        if self.left_in_part == 0 {
            self.begin_part(self.left + 1)?;
        }
        self.left_in_part -= 1;
        let difference = self.difference()?;
        let step = self.difference_min.wrapping_add(difference);
        self.last = self.last.wrapping_add(step);
        Some(self.last)
    }

    /// Moves to the next part, which has at least one of the `left` values.
    fn begin_part(&mut self, left: u64) -> Option<()> {
        if self.widths.is_empty() {
            let mut header = Thrift::new(self.packed.get(self.at..)?);
            self.difference_min = i32::try_from(header.number()?).ok()?;
            self.at += header.read_bytes();
            self.widths = self.packed.get(self.at..)?.get(..self.parts)?;
            self.at += self.parts;
        }
        let (width, widths) = self.widths.split_first()?;
        self.widths = widths;
        self.width = *width;
        (self.width <= WIDTH_MAX).then_some(())?;
        self.bit = self.at.checked_mul(8)?;
        let bytes = self.part_values.checked_mul(u64::from(*width))?.div_ceil(8);
        self.at = self.at.checked_add(usize::try_from(bytes).ok()?)?;
        self.left_in_part = self.part_values.min(left);
        Some(())
    }

    fn difference(&mut self) -> Option<i32> {
        if self.width == 0 {
            return Some(0);
        }
        let at = self.bit / 8;
        let bytes = match self.packed.get(at..)?.first_chunk::<8>() {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => {
                let rest = self.packed.get(at..)?.iter().rev();
                rest.fold(0, |bytes, byte| bytes << 8 | u64::from(*byte))
            }
        };
        let bits = bytes >> (self.bit % 8);
        self.bit += usize::from(self.width);
        (self.bit <= self.packed.len().checked_mul(8)?).then_some(())?;
        let mask = u64::MAX >> (64 - u32::from(self.width));
        u32::try_from(bits & mask).ok().map(u32::cast_signed)
    }
}

/// Offset of the end of lengths; `None` if they are more than `count_max`.
pub(super) fn lengths_end(packed: &[u8], count_max: u64) -> Option<usize> {
    let mut lengths = Lengths::new(packed, count_max)?;
    let mut left = lengths.left.saturating_sub(1);
    while left > 0 {
        lengths.begin_part(left)?;
        left -= lengths.left_in_part;
    }
    Some(lengths.at)
}

/// Upper bound on the bytes of any `batch` consecutive texts, at most about twice their bytes.
///
/// `prefixes` begins with the lengths that each text shares with the one before, `suffixes` with
/// the lengths of its own bytes.
pub(super) fn texts_bytes(
    prefixes: &[u8],
    suffixes: &[u8],
    count_max: u64,
    batch: u64,
) -> Option<u64> {
    let mut prefixes = Lengths::new(prefixes, count_max)?;
    let mut suffixes = Lengths::new(suffixes, count_max)?;
    // Any batch lies in two adjacent windows of `batch` texts.
    let (mut before, mut now, mut most) = (0_u64, 0_u64, 0_u64);
    let (mut length, mut in_window) = (0_u64, 0);
    let count = prefixes.left;
    (suffixes.left == count).then_some(())?;
    for _ in 0..count {
        let (prefix, suffix) = (prefixes.next()?, suffixes.next()?);
        let suffix = u64::try_from(suffix).ok()?;
        // A negative prefix takes all of the last text.
        length = u64::try_from(prefix).unwrap_or(u64::MAX).min(length);
        length = length.saturating_add(suffix);
        if in_window == batch {
            (before, now, in_window) = (now, 0, 0);
        }
        in_window += 1;
        now = now.saturating_add(length);
        most = most.max(before.saturating_add(now));
    }
    Some(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(out: &mut Vec<u8>, mut number: u32) {
        while number >= 0x80 {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
    }

    /// Packs lengths in blocks of 128 in 4 parts.
    fn packed(lengths: &[i32]) -> Vec<u8> {
        let zigzag = |number: i32| ((number << 1) ^ (number >> 31)).cast_unsigned();
        let first = lengths.first().copied().unwrap_or_default();
        let mut out = Vec::new();
        for number in [128, 4, lengths.len() as u32, zigzag(first)] {
            put(&mut out, number);
        }
        let differences: Vec<i32> = lengths
            .windows(2)
            .map(|pair| pair[1].wrapping_sub(pair[0]))
            .collect();
        for block in differences.chunks(128) {
            let least = block.iter().min().unwrap();
            put(&mut out, zigzag(*least));
            let parts: Vec<_> = block.chunks(32).collect();
            let above = |it: &i32| it.wrapping_sub(*least).cast_unsigned();
            let width = |part: &&[i32]| {
                let widest = part.iter().map(above).max().unwrap();
                32 - widest.leading_zeros()
            };
            let widths: Vec<u32> = parts.iter().map(width).collect();
            for part in 0..4 {
                out.push(widths.get(part).copied().unwrap_or(99) as u8);
            }
            for (part, width) in parts.iter().zip(&widths) {
                let mut bytes = vec![0; 4 * *width as usize];
                for (index, difference) in part.iter().enumerate() {
                    for bit in (0..*width).filter(|bit| above(difference) >> bit & 1 == 1) {
                        let at = index * *width as usize + bit as usize;
                        bytes[at / 8] |= 1 << (at % 8);
                    }
                }
                out.extend(bytes);
            }
        }
        out
    }

    #[test]
    fn lengths_end_with_their_last_block() {
        // 34 values: the first, then one part of 2 bits a value and one of none.
        let packed = [
            [0x80, 1, 4, 34, 0, 0, 2, 0, 0, 0].as_slice(),
            &[0; 8],
            b"abc",
        ]
        .concat();
        assert_eq!(lengths_end(&packed, 34), Some(18));
        assert_eq!(lengths_end(&packed, 33), None);
        assert_eq!(lengths_end(&[0x80, 1, 0, 34, 0], 34), None);
        assert_eq!(lengths_end(&[0x80, 1, 4, 1, 0], 1), Some(5));
    }

    proptest::proptest! {
        #[test]
        fn packed_lengths_are_read_back(
            lengths in proptest::collection::vec(
                proptest::prop_oneof![0..9_i32, 0..100_000_i32, proptest::prelude::any::<i32>()],
                0..400,
            ),
        ) {
            let packed = packed(&lengths);
            let mut read = Lengths::new(&packed, 400).unwrap();
            let found: Vec<i32> = std::iter::from_fn(|| read.next()).collect();
            proptest::prop_assert_eq!(&found, &lengths);
            let followed = [&packed[..], b"behind"].concat();
            proptest::prop_assert_eq!(lengths_end(&followed, 400), Some(packed.len()));
        }
    }

    #[test]
    fn texts_are_counted_with_the_prefix_of_the_one_before() {
        let table = [
            (vec![0, 3, 3], vec![3, 0, 1], 1, 7),
            (vec![0, 3, 3], vec![3, 0, 1], 2, 10),
            (vec![0, 3, 3], vec![3, 0, 1], 9, 10),
            // A prefix is cut to the last text; a negative one is all of it.
            (vec![5, 99, -1], vec![3, 0, 1], 9, 10),
            (vec![0; 100], vec![1; 100], 10, 20),
            (vec![], vec![], 10, 0),
        ];
        for (prefixes, suffixes, batch, expected) in table {
            let found = texts_bytes(&packed(&prefixes), &packed(&suffixes), 100, batch);
            assert_eq!(found, Some(expected), "{prefixes:?} {suffixes:?} {batch}");
        }
        let differ = texts_bytes(&packed(&[0, 0]), &packed(&[1]), 100, 1);
        assert_eq!(differ, None);
        let below = texts_bytes(&packed(&[0]), &packed(&[-1]), 100, 1);
        assert_eq!(below, None);
    }
}
