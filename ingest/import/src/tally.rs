//! Counts of events by day and name: what a reconciliation compares.

use serde::de::Deserializer;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A day in UTC: days since 1970-01-01.
pub type Day = i64;

/// How many events there are of each name on each day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<(Day, String), u64>);

impl Tally {
    /// Counts events.
    pub fn add(&mut self, day: Day, event: &str, count: u64) {
        if count > 0 {
            *self.0.entry((day, event.to_owned())).or_default() += count;
        }
    }

    /// Counts all of another.
    pub fn merge(&mut self, other: &Self) {
        for ((day, event), count) in &other.0 {
            self.add(*day, event, *count);
        }
    }

    /// Takes events back that were counted.
    pub fn remove(&mut self, day: Day, event: &str) {
        if let Entry::Occupied(mut entry) = self.0.entry((day, event.to_owned())) {
            *entry.get_mut() = entry.get().saturating_sub(1);
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }

    /// This without another.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut left = Self::default();
        for (day, event, count) in self.iter() {
            left.add(day, event, count.saturating_sub(other.get(day, event)));
        }
        left
    }

    /// How many of one name on one day.
    #[must_use]
    pub fn get(&self, day: Day, event: &str) -> u64 {
        let found = self.0.get(&(day, event.to_owned()));
        found.copied().unwrap_or_default()
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Day, name and count, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (Day, &str, u64)> {
        self.0
            .iter()
            .map(|((day, event), count)| (*day, event.as_str(), *count))
    }

    /// Names with their counts, the most frequent first.
    #[must_use]
    pub fn by_name(&self) -> Vec<(&str, u64)> {
        let mut names: BTreeMap<&str, u64> = BTreeMap::new();
        for (_, event, count) in self.iter() {
            *names.entry(event).or_default() += count;
        }
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        names
    }

    /// The first and the last day.
    #[must_use]
    pub fn days(&self) -> Option<(Day, Day)> {
        let first = self.0.keys().next()?.0;
        let last = self.0.keys().next_back()?.0;
        Some((first, last))
    }
}

/// As a list: JSON's objects have no pairs for names.
impl Serialize for Tally {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Tally {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let list: Vec<(Day, String, u64)> = Vec::deserialize(deserializer)?;
        let mut tally = Self::default();
        for (day, event, count) in list {
            tally.add(day, &event, count);
        }
        Ok(tally)
    }
}

/// A day as people write it.
#[must_use]
pub fn day_text(day: Day) -> String {
    let (year, month, day) = millrace_sources::time::date(day);
    format!("{year:04}-{month:02}-{day:02}")
}
