//! Looks up which rows of a batch are stored.
//!
//! A block is stored whole or not at all, so a few keys of a batch that was sent as a whole
//! suffice. Rows that may have been sent by halves (by another process before a copy of its folder
//! came into use, or by this one before the checkpoint was lost) may be stored one by one: all are
//! looked up, and if some are stored and others are not, halves are, down to single rows.
//!
//! Rows may share a key, as events do to which a client gave one uuid. For a part of a section
//! those keys count that no other part has; if there are none, a found row may be another part's,
//! and only rows beyond the number of the others are this part's. A case that stays open counts as
//! absent: sent under its token the row is stored once, unless the token is spent or forgotten.
//!
//! Shards store the rows of a block each for itself: there, too, all rows are looked up, and those
//! that a shard lacks are told by their keys. Rows that share a key may be on several shards, and
//! are told by their distinct ids as well: those that share both are all on one, or none is.
//!
//! An event that a later one replaced, as its client sent it again, is gone after a merge, and
//! counts as stored: stored again, it would be gone after the next.

use super::sink::Sink;
use millrace_clickhouse::{EventVersion, PRESENCE_KEYS_MAX, PlacedKey, PresenceCount, QueryError};
use millrace_rows::{Month, RowKey, Table};
use std::collections::HashSet;

/// Most keys of a block that are looked up.
const SAMPLE_KEYS_MAX: usize = 32;

/// Rows to look up, by their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowLookup {
    /// Keys of the rows, without duplicates.
    keys: Vec<RowKey>,
    /// Number of the batch's rows with these keys.
    rows: u64,
    /// Number of other rows with these keys.
    others: u64,
    /// True if all rows are stored if one is.
    is_block: bool,
    /// Versions of the rows, if they are events that may be stored one by one.
    versions: Vec<EventVersion>,
    /// Keys of the rows with their places, without duplicates, if some share a key and the places
    /// tell them.
    places: Vec<PlacedKey>,
    /// True if of some rows only a few keys are known, those of a section's header.
    is_sample: bool,
}

/// Rows of a batch that shards lack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingRows {
    rows: HashSet<PlacedKey>,
    /// True if rows are told by their places, too.
    have_places: bool,
}

impl MissingRows {
    /// Returns true if no row is missing.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Number of rows, of which those count once that are told by nothing.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns what tells this row from others, if it is missing.
    pub fn get(&self, row: PlacedKey) -> Option<PlacedKey> {
        let row = match self.have_places {
            true => row,
            false => row.without_place(),
        };
        self.rows.get(&row).copied()
    }

    /// Keys of the rows.
    pub fn keys(&self) -> HashSet<RowKey> {
        self.rows.iter().map(|row| row.key).collect()
    }
}

/// Share of a batch's rows that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    None,
    Some,
    All,
}

impl RowLookup {
    /// A lookup of rows with `keys`, each of which may be stored or not. `others` are the keys of
    /// other rows in the same section.
    pub fn rows(mut keys: Vec<RowKey>, others: &[RowKey]) -> Self {
        if keys.iter().any(|key| key.index.is_none()) {
            for key in &mut keys {
                key.index = None;
            }
        }
        let others = match others {
            [] => 0,
            _ => keep_own(&mut keys, others),
        };
        let rows = keys.len() as u64;
        // By time, so that a chunk of them is looked up in few parts of the table.
        keys.sort_unstable_by_key(|key| (key.received_at, key.id, key.index));
        keys.dedup();
        Self {
            keys,
            rows,
            others,
            is_block: false,
            versions: Vec::new(),
            places: Vec::new(),
            is_sample: false,
        }
    }

    /// Marks that a few keys stand for some of the rows, which on shards they do not.
    #[must_use]
    pub fn with_samples(mut self, is_sample: bool) -> Self {
        self.is_sample = is_sample;
        self
    }

    /// Adds the places of rows of which some share a key.
    #[must_use]
    pub fn with_places(mut self, mut places: Vec<PlacedKey>) -> Self {
        places.sort_unstable_by_key(|row| (row.key.received_at, row.key.id, row.place));
        self.places = places;
        self
    }

    /// Adds the versions of the rows, which are events: those that later ones replaced count as
    /// stored.
    #[must_use]
    pub fn with_versions(mut self, mut versions: Vec<EventVersion>) -> Self {
        versions.sort_unstable_by_key(|version| version.created_at);
        self.versions = versions;
        self
    }

    /// Turns the lookup into that of a block, whose rows are all stored if one is.
    #[must_use]
    pub fn into_block(mut self) -> Self {
        self.is_block = true;
        self.versions = Vec::new();
        self.places = Vec::new();
        if self.others == 0 {
            self.keys = spread(&self.keys, SAMPLE_KEYS_MAX);
        }
        self
    }

    /// Returns true if one row found stands for all.
    pub fn is_of_block(&self) -> bool {
        self.is_block
    }

    /// Returns true if the keys do not tell of each row whether it is stored.
    pub fn is_of_some_rows(&self) -> bool {
        self.is_block || self.is_sample
    }

    /// Lists the rows that are not stored; `None` if rows that share a key cannot be told apart, or
    /// only a few of the rows' keys are known.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn missing_keys<K: Sink>(
        &self,
        sink: &K,
        table: Table,
        month: Month,
    ) -> Result<Option<MissingRows>, QueryError> {
        if self.is_of_some_rows() {
            return Ok(None);
        }
        if !self.places.is_empty() {
            return self.missing_places(sink, table, month).await.map(Some);
        }
        // Rejected events that share a key are on one shard.
        let are_shared = self.rows > self.keys.len() as u64 && table != Table::RejectedEvents;
        if self.others > 0 || are_shared {
            return Ok(None);
        }
        let mut missing: HashSet<PlacedKey> = self.keys.iter().copied().map(Into::into).collect();
        for keys in self.keys.chunks(PRESENCE_KEYS_MAX) {
            for found in sink.present_keys(table, month, keys).await? {
                missing.remove(&found.without_place());
            }
        }
        Ok(Some(MissingRows {
            rows: missing,
            have_places: false,
        }))
    }

    /// Lists the rows that are not stored of some that share keys and are told by their places.
    async fn missing_places<K: Sink>(
        &self,
        sink: &K,
        table: Table,
        month: Month,
    ) -> Result<MissingRows, QueryError> {
        let mut missing: HashSet<PlacedKey> = self.places.iter().copied().collect();
        // They are sorted by key.
        let mut keys: Vec<RowKey> = self.places.iter().map(|row| row.key).collect();
        keys.dedup();
        for keys in keys.chunks(PRESENCE_KEYS_MAX) {
            for found in sink.present_keys(table, month, keys).await? {
                missing.remove(&found);
            }
        }
        Ok(MissingRows {
            rows: missing,
            have_places: true,
        })
    }

    /// Looks up how many of the rows are stored.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn look_up<K: Sink>(
        &self,
        sink: &K,
        table: Table,
        month: Month,
    ) -> Result<Presence, QueryError> {
        if self.is_block && self.others == 0 {
            let is_there = sink.any_present(table, month, &self.keys).await?;
            return Ok(if is_there {
                Presence::All
            } else {
                Presence::None
            });
        }
        let presence = match sink.is_sharded() && !self.places.is_empty() {
            true => {
                let missing = self.missing_places(sink, table, month).await?.len();
                match missing {
                    0 => Presence::All,
                    missing if missing == self.places.len() => Presence::None,
                    _ => Presence::Some,
                }
            }
            false => self.count(sink, table, month).await?,
        };
        // Asked for only then, since it costs more. If none is found, all are sent in one insert.
        if presence == Presence::Some && self.are_stored_or_replaced(sink, month).await? {
            return Ok(Presence::All);
        }
        Ok(presence)
    }

    /// Returns true if each row is stored, or was replaced by a later one; false if the versions of
    /// the rows are not known.
    async fn are_stored_or_replaced<K: Sink>(
        &self,
        sink: &K,
        month: Month,
    ) -> Result<bool, QueryError> {
        for versions in self.versions.chunks(PRESENCE_KEYS_MAX) {
            if !sink.are_stored_or_replaced(month, versions).await? {
                return Ok(false);
            }
        }
        Ok(!self.versions.is_empty())
    }

    /// Counts the rows that are stored.
    async fn count<K: Sink>(
        &self,
        sink: &K,
        table: Table,
        month: Month,
    ) -> Result<Presence, QueryError> {
        let (mut found, mut asked) = (PresenceCount::default(), 0);
        for keys in self.keys.chunks(PRESENCE_KEYS_MAX) {
            let piece = sink.count_present(table, month, keys).await?;
            asked += keys.len() as u64;
            found.keys += piece.keys;
            found.rows += piece.rows;
            if self.others == 0 && (1..asked).contains(&found.keys) {
                return Ok(Presence::Some);
            }
        }
        Ok(self.presence(found))
    }

    fn presence(&self, found: PresenceCount) -> Presence {
        if found.rows <= self.others {
            Presence::None
        } else if self.is_block
            || (found.keys >= self.keys.len() as u64 && found.rows >= self.rows + self.others)
        {
            Presence::All
        } else {
            Presence::Some
        }
    }
}

/// Keeps the keys that `others` lack, or all if there are none. Returns the number of the others
/// that have one of these.
fn keep_own(keys: &mut Vec<RowKey>, others: &[RowKey]) -> u64 {
    let ours: HashSet<RowKey> = keys.iter().copied().collect();
    let shared = others.iter().copied().filter(|key| ours.contains(key));
    let shared: Vec<RowKey> = shared.collect();
    let distinct: HashSet<RowKey> = shared.iter().copied().collect();
    if distinct.len() == ours.len() {
        return shared.len() as u64;
    }
    keys.retain(|key| !distinct.contains(key));
    0
}

/// Returns at most `count_max` of `items`, evenly spread, the first and the last among them.
pub fn spread<T: Copy>(items: &[T], count_max: usize) -> Vec<T> {
    if items.len() <= count_max {
        return items.to_vec();
    }
    let last = items.len() - 1;
    let steps = count_max.saturating_sub(1).max(1);
    (0..count_max)
        .filter_map(|step| items.get(step * last / steps).copied())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_rows::Micros;
    use uuid::Uuid;

    fn keys(ids: &[u128]) -> Vec<RowKey> {
        let key = |id: &u128| RowKey {
            id: Uuid::from_u128(*id),
            received_at: Micros(0),
            index: None,
        };
        ids.iter().map(key).collect()
    }

    #[test]
    fn rows_are_stored_if_each_key_is_found_as_often_as_they_have_it() {
        use Presence::{All, None, Some};
        type Case = (&'static [u128], &'static [u128], (u64, u64), Presence);
        // Keys of the rows, keys of others of the section, found keys and rows.
        let table: [Case; 12] = [
            (&[1, 2, 3], &[], (0, 0), None),
            (&[1, 2, 3], &[], (2, 2), Some),
            (&[1, 2, 3], &[], (3, 3), All),
            // Two events of one uuid: one of them is not both.
            (&[1, 1], &[], (1, 1), Some),
            (&[1, 1], &[], (1, 2), All),
            (&[1, 1], &[], (1, 3), All),
            // A key that the other half has, too, is ignored.
            (&[1, 2], &[1, 3], (0, 0), None),
            (&[1, 2], &[1, 3], (1, 1), All),
            // No key of its own: a found row may be the other half's.
            (&[1], &[1, 3], (1, 1), None),
            (&[1], &[1, 3], (1, 2), All),
            (&[1, 1], &[1], (1, 2), Some),
            (&[1, 1], &[1], (1, 3), All),
        ];
        for (ours, others, found, expected) in table {
            let lookup = RowLookup::rows(keys(ours), &keys(others));
            let (keys, rows) = found;
            let presence = lookup.presence(PresenceCount { keys, rows });
            assert_eq!(presence, expected, "{ours:?}, {others:?}: {found:?}");
        }
    }

    #[test]
    fn a_sample_is_spread_from_first_to_last() {
        let items: Vec<u32> = (0..100).collect();
        let sample = spread(&items, 32);
        assert_eq!((sample.len(), sample[0], sample[31]), (32, 0, 99));
        assert_eq!(spread(&items[..3], 32), [0, 1, 2]);
    }
}
