//! Sets of records, kept as ranges of ordinals for each file: adjacent records take the space of
//! one.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A set of records of files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RecordSet(BTreeMap<String, OrdinalSet>);

impl RecordSet {
    /// Adds a record.
    pub fn insert(&mut self, file: &str, ordinal: u64) {
        match self.0.get_mut(file) {
            Some(ordinals) => ordinals.insert(ordinal),
            None => {
                let mut ordinals = OrdinalSet::default();
                ordinals.insert(ordinal);
                self.0.insert(file.to_owned(), ordinals);
            }
        }
    }

    /// Adds all of another set.
    pub fn merge(&mut self, other: &Self) {
        for (file, ordinals) in &other.0 {
            let known = self.0.entry(file.clone()).or_default();
            for (first, last) in &ordinals.0 {
                known.insert_range(*first, *last);
            }
        }
    }

    /// Returns true if a record is in the set.
    #[must_use]
    pub fn contains(&self, file: &str, ordinal: u64) -> bool {
        self.0
            .get(file)
            .is_some_and(|ordinals| ordinals.contains(ordinal))
    }

    /// Returns true if the set has no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A set of ordinals: the last of each range by its first. Serialized as a list of pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<[u64; 2]>", into = "Vec<[u64; 2]>")]
pub struct OrdinalSet(BTreeMap<u64, u64>);

impl OrdinalSet {
    /// Adds an ordinal.
    pub fn insert(&mut self, ordinal: u64) {
        self.insert_range(ordinal, ordinal);
    }

    fn insert_range(&mut self, first: u64, last: u64) {
        let (mut first, mut last) = (first, last);
        // Merge all ranges that overlap or touch the new one.
        while let Some((from, until)) = self.0.range(..=last.saturating_add(1)).next_back() {
            if until.saturating_add(1) < first {
                break;
            }
            let from = *from;
            (first, last) = (first.min(from), last.max(*until));
            self.0.remove(&from);
        }
        self.0.insert(first, last);
    }

    /// Returns true if an ordinal is in the set.
    #[must_use]
    pub fn contains(&self, ordinal: u64) -> bool {
        let run = self.0.range(..=ordinal).next_back();
        run.is_some_and(|(_, last)| *last >= ordinal)
    }

    /// Iterates over the ordinals in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }
}

impl From<Vec<[u64; 2]>> for OrdinalSet {
    fn from(list: Vec<[u64; 2]>) -> Self {
        let mut ordinals = Self::default();
        for [first, last] in list {
            ordinals.insert_range(first, last.max(first));
        }
        ordinals
    }
}

impl From<OrdinalSet> for Vec<[u64; 2]> {
    fn from(ordinals: OrdinalSet) -> Self {
        let pairs = ordinals.0.into_iter().map(|(first, last)| [first, last]);
        pairs.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn ordinal_ranges_behave_as_a_set(
            ordinals in proptest::collection::vec(0_u64..60, 0..80),
            more in proptest::collection::vec((0_u64..60, 0_u64..9), 0..9),
        ) {
            let mut set: BTreeSet<u64> = ordinals.iter().copied().collect();
            let mut records = RecordSet::default();
            ordinals.iter().for_each(|it| records.insert("a", *it));
            let more: Vec<_> = more.iter().map(|(first, length)| [*first, first + length]).collect();
            set.extend(more.iter().flat_map(|[first, last]| *first..=*last));
            let mut other = RecordSet::default();
            if !more.is_empty() {
                other.0.insert("a".to_owned(), OrdinalSet::from(more));
            }
            records.merge(&other);
            let text = serde_json::to_string(&records).unwrap();
            let records: RecordSet = serde_json::from_str(&text).unwrap();
            for ordinal in 0..70 {
                prop_assert_eq!(records.contains("a", ordinal), set.contains(&ordinal));
            }
            prop_assert!(!records.contains("b", 1));
            let pairs: Vec<[u64; 2]> = records.0.get("a").cloned().unwrap_or_default().into();
            prop_assert!(pairs.windows(2).all(|pair| pair[0][1] + 1 < pair[1][0]), "{pairs:?}");
            let listed: Vec<_> = records.0.values().flat_map(OrdinalSet::iter).collect();
            prop_assert_eq!(listed, set.into_iter().collect::<Vec<_>>());
        }
    }
}
