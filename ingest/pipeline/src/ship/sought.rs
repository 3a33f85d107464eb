//! Rows of an insert that are looked for.
//!
//! A block is there whole or not at all, so that of an insert that was sent as it is a few keys do. Rows that
//! somebody may have sent by halves (whoever had this folder before a copy of it took its place, or we before
//! the checkpoint was lost) are there each by itself: all are asked for, and if some are there and others are
//! not, halves are, down to single rows.
//!
//! Rows may share a key, as those of events that a client names alike. Of a part of a section the keys count that
//! no other part has; if there are none, a row that is found may be another part's, and only more than the others
//! have are this part's. What is left open so is taken for absent: sent under its token it is stored once, unless
//! the token is spent or forgotten.

use super::sink::Sink;
use millrace_clickhouse::{Found, PRESENCE_KEYS_MAX, QueryError};
use millrace_rows::{Month, RowKey, Table};
use std::collections::HashSet;

/// Keys of a block that are asked for at most.
const SAMPLE_KEYS_MAX: usize = 32;

/// Keys of rows, and what is known of the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sought {
    /// All different.
    keys: Vec<RowKey>,
    /// Rows with these keys.
    rows: u64,
    /// Rows with these keys that are not of the insert.
    others: u64,
    /// Whether all rows are there if one is.
    is_block: bool,
}

/// How many of an insert's rows are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    None,
    Some,
    All,
}

impl Sought {
    /// Rows with `keys`, each of which may be there or not. `others` are the keys of rows beside them, in the same
    /// section.
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
        // By time, so that a piece of them is asked for in few places of the table.
        keys.sort_unstable_by_key(|key| (key.received_at, key.id, key.index));
        keys.dedup();
        Self {
            keys,
            rows,
            others,
            is_block: false,
        }
    }

    /// The same rows, of which all are there if one is.
    #[must_use]
    pub fn into_block(mut self) -> Self {
        self.is_block = true;
        if self.others == 0 {
            self.keys = spread(&self.keys, SAMPLE_KEYS_MAX);
        }
        self
    }

    /// How many of the rows are there.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn look<K: Sink>(
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
        let (mut found, mut asked) = (Found::default(), 0);
        for keys in self.keys.chunks(PRESENCE_KEYS_MAX) {
            let piece = sink.count_present(table, month, keys).await?;
            asked += keys.len() as u64;
            found.keys += piece.keys;
            found.rows += piece.rows;
            if self.others == 0 && (1..asked).contains(&found.keys) {
                return Ok(Presence::Some);
            }
        }
        Ok(self.judge(found))
    }

    fn judge(&self, found: Found) -> Presence {
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

/// Keeps the keys that `others` have not, or all if there are none. How many of the others have one of these.
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

/// At most `count_max` of `items`, evenly spread, the first and the last among them.
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
    fn rows_are_there_if_each_of_their_keys_is_as_often_as_they_have_it() {
        use Presence::{All, None, Some};
        type Case = (&'static [u128], &'static [u128], (u64, u64), Presence);
        // Keys of the rows, of others of the section, found keys and rows.
        let table: [Case; 12] = [
            (&[1, 2, 3], &[], (0, 0), None),
            (&[1, 2, 3], &[], (2, 2), Some),
            (&[1, 2, 3], &[], (3, 3), All),
            // Two events of one name: one of them is not both.
            (&[1, 1], &[], (1, 1), Some),
            (&[1, 1], &[], (1, 2), All),
            (&[1, 1], &[], (1, 3), All),
            // Of a half with a key that the other has, too, the rest tells.
            (&[1, 2], &[1, 3], (0, 0), None),
            (&[1, 2], &[1, 3], (1, 1), All),
            // Nothing is its own: what is found may be the other's.
            (&[1], &[1, 3], (1, 1), None),
            (&[1], &[1, 3], (1, 2), All),
            (&[1, 1], &[1], (1, 2), Some),
            (&[1, 1], &[1], (1, 3), All),
        ];
        for (ours, others, found, expected) in table {
            let sought = Sought::rows(keys(ours), &keys(others));
            let (keys, rows) = found;
            let judged = sought.judge(Found { keys, rows });
            assert_eq!(judged, expected, "{ours:?}, {others:?}: {found:?}");
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
