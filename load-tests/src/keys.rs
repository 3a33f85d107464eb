//! Project keys of a run.
//!
//! Requests of all connections take the keys in turn: request 0 of connection 0 takes the first,
//! request 0 of connection 1 the second and so on, as if the connections sent in lockstep. Each
//! project thus gets its share with any number of connections, and no connection waits for another.
//!
//! A key given twice gets twice the load.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Keys of projects, shared by all connections. A result file has only their number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "usize", into = "usize")]
pub struct Keys {
    texts: Arc<[String]>,
    projects: usize,
}

/// Key and sequence number of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAssignment<'a> {
    /// Project key of the request.
    pub key: &'a str,
    /// Number of the request among those with this key, over all connections; with a single key it
    /// is the connection's batch. Shares of the requests are drawn by this number, so that every
    /// project gets the same share.
    pub number: u32,
}

impl Keys {
    /// Takes the keys in this order.
    #[must_use]
    pub fn new(texts: Vec<String>) -> Self {
        Self {
            projects: texts.iter().collect::<BTreeSet<_>>().len(),
            texts: texts.into(),
        }
    }

    /// Reads keys from a file, one per line; empty lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// The file cannot be read, or has no key.
    pub fn read(path: &Path) -> Result<Vec<String>> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the keys in {}", path.display()))?;
        let keys: Vec<_> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(str::to_owned)
            .collect();
        ensure!(!keys.is_empty(), "{} has no keys", path.display());
        Ok(keys)
    }

    /// Assigns a key to a connection's batch.
    #[must_use]
    pub fn assign(&self, connections: u16, connection: u16, batch: u32) -> KeyAssignment<'_> {
        let [first, _, ..] = &*self.texts else {
            let key = self.texts.first().map_or("", String::as_str);
            return KeyAssignment { key, number: batch };
        };
        let number = u64::from(connections) * u64::from(batch) + u64::from(connection);
        let keys = self.texts.len() as u64;
        let (round, at) = (number / keys, number % keys);
        let key = usize::try_from(at).ok().and_then(|at| self.texts.get(at));
        KeyAssignment {
            key: key.unwrap_or(first),
            // Staggered, so that not all projects reach the same number at once.
            number: (round + at) as u32,
        }
    }

    /// Number of projects: of different keys.
    #[must_use]
    pub const fn projects(&self) -> usize {
        self.projects
    }

    /// Length of the longest key in bytes.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.texts.iter().map(String::len).max().unwrap_or_default()
    }

    /// Returns true if all keys have as many bytes.
    #[must_use]
    pub fn have_one_length(&self) -> bool {
        self.texts.windows(2).all(|pair| match pair {
            [one, other] => one.len() == other.len(),
            _ => true,
        })
    }

    /// Checks that these keys can be sent.
    ///
    /// # Errors
    /// There is no key, or one is empty or would have to be escaped.
    pub fn check(&self) -> Result<()> {
        ensure!(!self.texts.is_empty(), "there is no project key");
        for text in &*self.texts {
            ensure!(
                !text.is_empty() && !text.contains(|c: char| matches!(c, '"' | '\\' | '\0'..=' ')),
                "the project key {text:?} is empty, or has quotes, backslashes or spaces"
            );
        }
        Ok(())
    }
}

impl From<usize> for Keys {
    fn from(projects: usize) -> Self {
        Self {
            texts: Arc::default(),
            projects,
        }
    }
}

impl From<Keys> for usize {
    fn from(keys: Keys) -> Self {
        keys.projects
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn keys(count: usize) -> Keys {
        Keys::new((0..count).map(|number| format!("key{number}")).collect())
    }

    proptest! {
        #[test]
        fn every_key_gets_the_same_share(
            connections in 1..50_u16,
            count in 1..50_usize,
            rounds in 1..4_u32,
        ) {
            let keys = keys(count);
            let mut taken = BTreeMap::new();
            // So many batches that every connection takes every key `rounds` times.
            for batch in 0..rounds * count as u32 {
                for connection in 0..connections {
                    let assigned = keys.assign(connections, connection, batch);
                    taken.entry(assigned.key).or_insert_with(Vec::new).push(assigned.number);
                }
            }
            prop_assert_eq!(taken.len(), count);
            let share = rounds * u32::from(connections);
            for numbers in taken.values() {
                prop_assert_eq!(numbers.len(), share as usize);
                if count > 1 {
                    prop_assert!(numbers.is_sorted_by(|a, b| *b == a + 1), "{:?}", numbers);
                }
            }
        }
    }

    #[test]
    fn a_file_has_a_key_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        std::fs::write(&path, "# two projects\nphc_a\n\n  phc_b\r\n").unwrap();
        assert_eq!(Keys::read(&path).unwrap(), ["phc_a", "phc_b"]);
        std::fs::write(&path, "# none\n").unwrap();
        assert!(Keys::read(&path).is_err());
        assert!(Keys::read(dir.path()).is_err());
    }

    #[test]
    fn keys_that_would_have_to_be_escaped_are_refused() {
        for texts in [&[][..], &[""], &["a", "b\"c"], &["a\\"], &["a b"], &["a\n"]] {
            let keys = Keys::new(texts.iter().map(|&text| text.to_owned()).collect());
            assert!(keys.check().is_err(), "{texts:?}");
        }
        assert!(keys(3).check().is_ok());
    }

    #[test]
    fn a_result_file_has_the_number_of_projects_but_not_their_keys() {
        let twice = Keys::new(["a", "b", "a"].map(str::to_owned).to_vec());
        assert_eq!(serde_json::to_string(&twice).unwrap(), "2");
        let read: Keys = serde_json::from_str("2").unwrap();
        assert_eq!(read.projects(), 2);
        assert_eq!(read.assign(1, 0, 0).key, "");
        assert!(read.check().is_err());
    }
}
