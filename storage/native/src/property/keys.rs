//! Dictionary of a property column's texts, in the order in which they come.

use crate::dictionary::Dictionary;
use millrace_rows::rowbinary::put_bytes;
use std::collections::HashMap;

/// Most bytes of the texts of a block. More are no dictionary, but data.
const BYTES_MAX: usize = 4 << 20;

/// Texts that were found so far. The first is the empty one, of rows without a text.
#[derive(Debug)]
pub(super) struct FoundTexts {
    numbers: HashMap<Vec<u8>, u16>,
    /// Texts with their lengths.
    keys: Vec<u8>,
    /// The last text, with its number: rows of one text often follow one another.
    last: (Vec<u8>, u16),
}

impl FoundTexts {
    pub(super) fn new() -> Self {
        let mut keys = Vec::new();
        put_bytes(&mut keys, b"");
        Self {
            numbers: HashMap::from([(Vec::new(), 0)]),
            keys,
            last: (Vec::new(), 0),
        }
    }

    /// Returns the number of a text; `None` if it is one too many.
    pub(super) fn number_of(&mut self, text: &[u8]) -> Option<u16> {
        if self.last.0 == text {
            return Some(self.last.1);
        }
        let number = match self.numbers.get(text) {
            Some(number) => *number,
            None => self.add(text)?,
        };
        self.last.0.clear();
        self.last.0.extend_from_slice(text);
        self.last.1 = number;
        Some(number)
    }

    fn add(&mut self, text: &[u8]) -> Option<u16> {
        let number = u16::try_from(self.numbers.len()).ok()?;
        if self.keys.len() + text.len() > BYTES_MAX {
            return None;
        }
        put_bytes(&mut self.keys, text);
        self.numbers.insert(text.to_vec(), number);
        Some(number)
    }

    /// Turns the texts into the dictionary of a block.
    pub(super) fn into_dictionary(self) -> Dictionary {
        Dictionary::of(self.keys, self.numbers.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_numbered_as_they_come_behind_the_empty_one() {
        let mut found = FoundTexts::new();
        let texts = ["", "b", "b", "a", "", "b"];
        let numbers = texts.map(|text| found.number_of(text.as_bytes()));
        assert_eq!(numbers, [0, 1, 1, 2, 0, 1].map(Some));
        assert_eq!(found.keys, b"\0\x01b\x01a");
    }

    #[test]
    fn texts_that_are_data_are_too_many() {
        let mut found = FoundTexts::new();
        let long = |first: u8| [vec![first], vec![b'x'; 1 << 20]].concat();
        let numbers = [1, 2, 3, 4].map(|first| found.number_of(&long(first)));
        assert_eq!(numbers, [Some(1), Some(2), Some(3), None]);
        let mut found = FoundTexts::new();
        let mut last = None;
        for text in 1..=u32::from(u16::MAX) {
            last = found.number_of(&text.to_be_bytes());
        }
        assert_eq!(last, Some(u16::MAX));
        assert_eq!(found.number_of(b"one more"), None);
    }
}
