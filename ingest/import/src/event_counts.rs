//! Counts of events by day and name, which a reconciliation compares.

use serde::de::Deserializer;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// A day in UTC: days since 1970-01-01.
pub type Day = i64;

/// Number of events of each name on each day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventCounts(BTreeMap<(Day, String), u64>);

impl EventCounts {
    /// Adds events.
    pub fn add(&mut self, day: Day, event: &str, count: u64) {
        if count > 0 {
            *self.0.entry((day, event.to_owned())).or_default() += count;
        }
    }

    /// Adds all counts of another.
    pub fn merge(&mut self, other: &Self) {
        for ((day, event), count) in &other.0 {
            self.add(*day, event, *count);
        }
    }

    /// Removes one event that was counted.
    pub fn remove(&mut self, day: Day, event: &str) {
        if let Entry::Occupied(mut entry) = self.0.entry((day, event.to_owned())) {
            *entry.get_mut() = entry.get().saturating_sub(1);
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }

    /// Subtracts the counts of another.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut left = Self::default();
        for (day, event, count) in self.iter() {
            left.add(day, event, count.saturating_sub(other.get(day, event)));
        }
        left
    }

    /// Number of events of one name on one day.
    #[must_use]
    pub fn get(&self, day: Day, event: &str) -> u64 {
        let found = self.0.get(&(day, event.to_owned()));
        found.copied().unwrap_or_default()
    }

    /// Number of all events.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Iterates over day, name and count, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (Day, &str, u64)> {
        self.0
            .iter()
            .map(|((day, event), count)| (*day, event.as_str(), *count))
    }

    /// Counts by name, the most frequent first.
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

    /// Number of days and names whose counts differ from those of another.
    #[must_use]
    pub fn differing(&self, other: &Self) -> usize {
        let keys: BTreeSet<_> = self.0.keys().chain(other.0.keys()).collect();
        let differ = |key: &&&(Day, String)| self.0.get(**key) != other.0.get(**key);
        keys.iter().filter(differ).count()
    }

    /// First and last day.
    #[must_use]
    pub fn days(&self) -> Option<(Day, Day)> {
        let first = self.0.keys().next()?.0;
        let last = self.0.keys().next_back()?.0;
        Some((first, last))
    }
}

/// Serialized as a list, as keys of JSON objects cannot be pairs.
impl Serialize for EventCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for EventCounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let list: Vec<(Day, String, u64)> = Vec::deserialize(deserializer)?;
        let mut counts = Self::default();
        for (day, event, count) in list {
            counts.add(day, &event, count);
        }
        Ok(counts)
    }
}

/// Formats a day as `YYYY-MM-DD`.
#[must_use]
pub fn day_text(day: Day) -> String {
    let (year, month, day) = millrace_sources::time::date(day);
    format!("{year:04}-{month:02}-{day:02}")
}
