//! Attempts that the API's document asks for, and which of them were processed so far.
//!
//! Tasks choose among hundreds of operations, fields and parameters. One processed request shows
//! that a task runs, and says nothing about the others.

use super::lock::lock;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

/// Missing attempts that are named.
const NAMED_MAX: usize = 5;

/// Attempts by group and name, each with whether it was processed.
#[derive(Debug, Default)]
pub(super) struct Coverage(Mutex<BTreeMap<&'static str, BTreeMap<String, bool>>>);

/// Attempts of one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CoveredGroup {
    /// Name of the group.
    pub group: &'static str,
    /// Number of attempts that were processed.
    pub tried: usize,
    /// Number of all attempts.
    pub all: usize,
    /// The first attempts that were not processed.
    pub missing: Vec<String>,
}

impl Coverage {
    /// Adds attempts of a group.
    pub(super) fn expect<'a>(
        &self,
        group: &'static str,
        attempts: impl IntoIterator<Item = &'a String>,
    ) {
        let mut groups = lock(&self.0);
        let known = groups.entry(group).or_default();
        for attempt in attempts {
            known.entry(attempt.clone()).or_insert(false);
        }
    }

    /// Records that an attempt was processed.
    pub(super) fn mark(&self, group: &str, attempt: &str) {
        if let Some(known) = lock(&self.0).get_mut(group)
            && let Some(is_tried) = known.get_mut(attempt)
        {
            *is_tried = true;
        }
    }

    /// Returns true if an attempt was processed.
    pub(super) fn is_tried(&self, group: &str, attempt: &str) -> bool {
        let groups = lock(&self.0);
        let known = groups.get(group).and_then(|known| known.get(attempt));
        known.copied().unwrap_or_default()
    }

    /// Returns true if all attempts of a group were processed.
    pub(super) fn is_complete(&self, group: &str) -> bool {
        let groups = lock(&self.0);
        let known = groups.get(group).map(BTreeMap::values);
        known.into_iter().flatten().all(|is_tried| *is_tried)
    }

    /// All groups.
    pub(super) fn groups(&self) -> Vec<CoveredGroup> {
        let groups = lock(&self.0);
        let groups = groups.iter().map(|(&group, known)| {
            let missing = known.iter().filter(|(_, is_tried)| !**is_tried);
            CoveredGroup {
                group,
                tried: known.values().filter(|is_tried| **is_tried).count(),
                all: known.len(),
                missing: missing
                    .map(|(attempt, _)| attempt.clone())
                    .take(NAMED_MAX)
                    .collect(),
            }
        });
        groups.collect()
    }
}

impl CoveredGroup {
    /// Returns true if all attempts were processed.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.tried == self.all
    }
}

impl fmt::Display for CoveredGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} of {} tried", self.group, self.tried, self.all)?;
        if !self.is_complete() {
            write!(f, ", not {}", self.missing.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_complete_once_each_of_its_attempts_was_processed() {
        let coverage = Coverage::default();
        let attempts = ["a".to_owned(), "b".to_owned()];
        coverage.expect("fields", &attempts);
        coverage.mark("fields", "a");
        coverage.mark("fields", "unknown");
        coverage.mark("others", "a");
        assert!(coverage.is_tried("fields", "a") && !coverage.is_tried("fields", "b"));
        assert!(!coverage.is_complete("fields"));
        let [group] = &coverage.groups()[..] else {
            panic!("one group");
        };
        assert_eq!(group.to_string(), "fields: 1 of 2 tried, not b");
        coverage.mark("fields", "b");
        // The next round reads the document again.
        coverage.expect("fields", &attempts);
        assert!(coverage.is_complete("fields"));
        let [group] = &coverage.groups()[..] else {
            panic!("one group");
        };
        assert_eq!(group.to_string(), "fields: 2 of 2 tried");
    }
}
