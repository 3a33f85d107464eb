//! Dictionary of a block's event names, or of a property's texts, as `LowCardinality(String)` has
//! it.

use millrace_rows::rowbinary::put_bytes;
use std::collections::HashMap;

/// Most bytes of a block's names. More are no names, but data that a client put there.
const NAMES_BYTES_MAX: usize = 4 << 20;
/// Most keys whose indexes have one byte.
const BYTE_KEYS_MAX: usize = 1 << 8;

/// Version of the keys: the only one there is.
const KEYS_VERSION: u64 = 1;
/// Flags of the indexes: keys follow, and the dictionary is not that of an earlier block.
const OWN_KEYS: u64 = 1 << 9 | 1 << 10;
/// Types of indexes.
const ONE_BYTE: u64 = 0;
const TWO_BYTES: u64 = 1;

/// Names that were found so far, numbered as they come.
#[derive(Debug, Default)]
pub(crate) struct FoundNames<'a> {
    numbers: HashMap<&'a [u8], u16>,
    names: Vec<&'a [u8]>,
    bytes: usize,
    /// The last name, with its number: events of one name often follow one another.
    last: Option<(&'a [u8], u16)>,
}

/// Keys of a block's column. Event names are sorted, so that a name's rank is its index.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    /// Texts of the keys.
    keys: Vec<u8>,
    count: usize,
}

// === impl FoundNames ===

impl<'a> FoundNames<'a> {
    /// Returns the number of a name; `None` if it is one too many.
    #[inline]
    pub(crate) fn number_of(&mut self, name: &'a [u8]) -> Option<u16> {
        if let Some((last, number)) = self.last
            && last == name
        {
            return Some(number);
        }
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None => self.add(name)?,
        };
        self.last = Some((name, number));
        Some(number)
    }

    fn add(&mut self, name: &'a [u8]) -> Option<u16> {
        // An index has two bytes at most.
        let number = u16::try_from(self.names.len()).ok()?;
        let bytes = self.bytes + name.len();
        if bytes > NAMES_BYTES_MAX {
            return None;
        }
        self.bytes = bytes;
        self.names.push(name);
        self.numbers.insert(name, number);
        Some(number)
    }

    /// Sorts the names. Returns their ranks beside, each at its number.
    pub(crate) fn sorted(self) -> (Dictionary, Vec<u16>) {
        let count = self.names.len();
        let mut names: Vec<(&[u8], usize)> = self.names.into_iter().zip(0..).collect();
        names.sort_unstable();
        let (mut keys, mut ranks) = (Vec::new(), vec![0; count]);
        for (rank, (name, number)) in names.into_iter().enumerate() {
            put_bytes(&mut keys, name);
            if let Some(place) = ranks.get_mut(number) {
                *place = rank as u16;
            }
        }
        (Dictionary { keys, count }, ranks)
    }
}

// === impl Dictionary ===

impl Dictionary {
    /// A dictionary of so many keys, each behind its length.
    pub(crate) const fn of(keys: Vec<u8>, count: usize) -> Self {
        Self { keys, count }
    }

    /// Bytes of an index.
    #[inline]
    pub(crate) const fn index_bytes(&self) -> usize {
        if self.count <= BYTE_KEYS_MAX { 1 } else { 2 }
    }

    /// Appends what a column with so many rows has before its indexes.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>, rows: usize) {
        let index_type = match self.index_bytes() {
            1 => ONE_BYTE,
            _ => TWO_BYTES,
        };
        for number in [KEYS_VERSION, OWN_KEYS | index_type, self.count as u64] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.keys);
        out.extend_from_slice(&(rows as u64).to_le_bytes());
    }

    /// Appends indexes of keys.
    #[inline]
    pub(crate) fn append_indexes(&self, indexes: impl Iterator<Item = u16>, out: &mut Vec<u8>) {
        match self.index_bytes() {
            1 => out.extend(indexes.map(|index| index as u8)),
            _ => out.extend(indexes.flat_map(u16::to_le_bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dictionary(names: &[Vec<u8>]) -> Option<(Dictionary, Vec<u16>)> {
        let mut found = FoundNames::default();
        for name in names {
            found.number_of(name)?;
        }
        Some(found.sorted())
    }

    #[test]
    fn names_have_the_rank_of_their_bytes_however_often_and_whenever_they_come() {
        let names = ["b", "a", "b", "b", "", "ab", "a", "\u{e4}"].map(|it| it.as_bytes());
        let mut found = FoundNames::default();
        let numbers: Vec<u16> = names.iter().filter_map(|it| found.number_of(it)).collect();
        assert_eq!(numbers, [0, 1, 0, 0, 2, 3, 1, 4]);
        let (dictionary, ranks) = found.sorted();
        assert_eq!(ranks, [3, 1, 0, 2, 4]);
        assert_eq!(dictionary.keys, b"\0\x01a\x02ab\x01b\x02\xc3\xa4");
        let mut out = Vec::new();
        dictionary.append_to(&mut out, 8);
        let expected: [&[u8]; 3] = [
            b"\x01\0\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\x05\0\0\0\0\0\0\0",
            &dictionary.keys,
            b"\x08\0\0\0\0\0\0\0",
        ];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn an_index_has_two_bytes_from_257_names_on_and_there_are_no_more_than_they_number() {
        let names: Vec<Vec<u8>> = (0..=1_u32 << 16)
            .map(|it| it.to_be_bytes().to_vec())
            .collect();
        for (count, bytes) in [(1, 1), (256, 1), (257, 2), (1 << 16, 2)] {
            let (dictionary, _) = dictionary(&names[..count]).unwrap();
            let mut out = Vec::new();
            dictionary.append_indexes([0, (count - 1) as u16].into_iter(), &mut out);
            assert_eq!(
                (dictionary.index_bytes(), out.len()),
                (bytes, 2 * bytes),
                "{count}"
            );
            let last = (count as u64 - 1).to_le_bytes();
            assert!(out.ends_with(&last[..bytes]), "{out:?}");
        }
        assert!(dictionary(&names).is_none());
    }

    #[test]
    fn names_that_are_data_are_too_many() {
        let long = |first: u8| [vec![first], vec![b'x'; 1 << 20]].concat();
        let names: Vec<Vec<u8>> = (0..4).map(long).collect();
        assert!(dictionary(&names[..3]).is_some());
        assert!(dictionary(&names).is_none());
    }
}
