//! Counts events while they are read, by their names as they stand in JSON.

use crate::tally::{Day, Tally};
use std::collections::{BTreeMap, HashMap};

/// A [`Tally`] that is being made, without a look into names.
#[derive(Debug, Default)]
pub(crate) struct Tallier(BTreeMap<Day, HashMap<Vec<u8>, u64>>);

impl Tallier {
    /// Counts an event; its name stands between quotes in JSON.
    pub(crate) fn add(&mut self, day: Day, name: &[u8]) {
        let names = self.0.entry(day).or_default();
        match names.get_mut(name) {
            Some(count) => *count += 1,
            None => drop(names.insert(name.to_vec(), 1)),
        }
    }

    /// What was counted since the last time.
    pub(crate) fn take(&mut self) -> Tally {
        let mut tally = Tally::default();
        for (day, names) in std::mem::take(&mut self.0) {
            for (name, count) in names {
                tally.add(day, &name_of(&name), count);
            }
        }
        tally
    }
}

/// A name as the table has it: without escapes, without white space around.
pub(crate) fn name_of(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let plain = if text.contains('\\') {
        serde_json::from_str(&format!("\"{text}\"")).unwrap_or_else(|_| text.into_owned())
    } else {
        text.into_owned()
    };
    plain.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_as_the_table_has_them() {
        let mut tallier = Tallier::default();
        for name in ["a", " a ", r"\u0061", r"\ud800"] {
            tallier.add(3, name.as_bytes());
        }
        tallier.add(4, b"a");
        let tally = tallier.take();
        assert_eq!((tally.get(3, "a"), tally.get(4, "a")), (3, 1));
        assert_eq!(tally.get(3, r"\ud800"), 1);
        assert_eq!(tallier.take(), Tally::default());
    }
}
