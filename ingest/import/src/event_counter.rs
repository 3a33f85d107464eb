//! Counts events while they are read, by their names as they are in JSON.

use crate::event_counts::{Day, EventCounts};
use std::collections::{BTreeMap, HashMap};

/// Collects an [`EventCounts`] without decoding the names of single events.
#[derive(Debug, Default)]
pub(crate) struct EventCounter(BTreeMap<Day, HashMap<Vec<u8>, u64>>);

impl EventCounter {
    /// Counts an event by its name as it is in JSON, without the quotes.
    pub(crate) fn add(&mut self, day: Day, name: &[u8]) {
        let names = self.0.entry(day).or_default();
        match names.get_mut(name) {
            Some(count) => *count += 1,
            None => drop(names.insert(name.to_vec(), 1)),
        }
    }

    /// Takes the counts since the last call.
    pub(crate) fn take(&mut self) -> EventCounts {
        let mut counts = EventCounts::default();
        for (day, names) in std::mem::take(&mut self.0) {
            for (name, count) in names {
                counts.add(day, &name_of(&name), count);
            }
        }
        counts
    }
}

/// Decodes a name as it is stored: without escapes and without surrounding white space.
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
    fn names_are_counted_unescaped_and_trimmed() {
        let mut counter = EventCounter::default();
        for name in ["a", " a ", r"\u0061", r"\ud800"] {
            counter.add(3, name.as_bytes());
        }
        counter.add(4, b"a");
        let counts = counter.take();
        assert_eq!((counts.get(3, "a"), counts.get(4, "a")), (3, 1));
        assert_eq!(counts.get(3, r"\ud800"), 1);
        assert_eq!(counter.take(), EventCounts::default());
    }
}
