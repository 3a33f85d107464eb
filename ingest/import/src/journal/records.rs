//! Sets of records: by file, runs of ordinals. Records that stand together take the room of one.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A set of records of files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Records(BTreeMap<String, Runs>);

impl Records {
    /// Adds a record.
    pub fn insert(&mut self, file: &str, ordinal: u64) {
        match self.0.get_mut(file) {
            Some(runs) => runs.insert(ordinal),
            None => {
                let mut runs = Runs::default();
                runs.insert(ordinal);
                self.0.insert(file.to_owned(), runs);
            }
        }
    }

    /// Adds all of another set.
    pub fn merge(&mut self, other: &Self) {
        for (file, runs) in &other.0 {
            let known = self.0.entry(file.clone()).or_default();
            for (first, last) in &runs.0 {
                known.insert_run(*first, *last);
            }
        }
    }

    /// Whether a record is in it.
    #[must_use]
    pub fn contains(&self, file: &str, ordinal: u64) -> bool {
        self.0.get(file).is_some_and(|runs| runs.contains(ordinal))
    }

    /// Whether there is none in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A set of ordinals: the last of each run by its first. Written as a list of pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<[u64; 2]>", into = "Vec<[u64; 2]>")]
pub struct Runs(BTreeMap<u64, u64>);

impl Runs {
    /// Adds an ordinal.
    pub fn insert(&mut self, ordinal: u64) {
        self.insert_run(ordinal, ordinal);
    }

    fn insert_run(&mut self, first: u64, last: u64) {
        let (mut first, mut last) = (first, last);
        // All runs that overlap it or touch it become one with it.
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

    /// Whether an ordinal is in it.
    #[must_use]
    pub fn contains(&self, ordinal: u64) -> bool {
        let run = self.0.range(..=ordinal).next_back();
        run.is_some_and(|(_, last)| *last >= ordinal)
    }

    /// The ordinals, in their order.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }
}

impl From<Vec<[u64; 2]>> for Runs {
    fn from(list: Vec<[u64; 2]>) -> Self {
        let mut runs = Self::default();
        for [first, last] in list {
            runs.insert_run(first, last.max(first));
        }
        runs
    }
}

impl From<Runs> for Vec<[u64; 2]> {
    fn from(runs: Runs) -> Self {
        let pairs = runs.0.into_iter().map(|(first, last)| [first, last]);
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
        fn runs_are_a_set_whatever_is_put_in(
            ordinals in proptest::collection::vec(0_u64..60, 0..80),
            more in proptest::collection::vec((0_u64..60, 0_u64..9), 0..9),
        ) {
            let mut set: BTreeSet<u64> = ordinals.iter().copied().collect();
            let mut records = Records::default();
            ordinals.iter().for_each(|it| records.insert("a", *it));
            let more: Vec<_> = more.iter().map(|(first, length)| [*first, first + length]).collect();
            set.extend(more.iter().flat_map(|[first, last]| *first..=*last));
            let mut other = Records::default();
            if !more.is_empty() {
                other.0.insert("a".to_owned(), Runs::from(more));
            }
            records.merge(&other);
            let text = serde_json::to_string(&records).unwrap();
            let records: Records = serde_json::from_str(&text).unwrap();
            for ordinal in 0..70 {
                prop_assert_eq!(records.contains("a", ordinal), set.contains(&ordinal));
            }
            prop_assert!(!records.contains("b", 1));
            let pairs: Vec<[u64; 2]> = records.0.get("a").cloned().unwrap_or_default().into();
            prop_assert!(pairs.windows(2).all(|pair| pair[0][1] + 1 < pair[1][0]), "{pairs:?}");
            let listed: Vec<_> = records.0.values().flat_map(Runs::iter).collect();
            prop_assert_eq!(listed, set.into_iter().collect::<Vec<_>>());
        }
    }
}
