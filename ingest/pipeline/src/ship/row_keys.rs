//! Keys of a batch's rows, as far as the table keeps the rows.

use super::row_lookup::RowLookup;
use millrace_clickhouse::{EventVersion, PlacedKey};
use millrace_rows::{RowKey, Table};
use std::cmp::Reverse;
use std::collections::HashSet;

/// Key of a row, and its version if it is an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedRow {
    pub key: RowKey,
    pub version: Option<EventVersion>,
    /// Place of the row among those of its key, see [`PlacedKey`].
    pub place: Option<u64>,
}

impl KeyedRow {
    /// Key of the row with its place.
    pub const fn placed(&self) -> PlacedKey {
        PlacedKey {
            key: self.key,
            place: self.place,
        }
    }
}

impl From<RowKey> for KeyedRow {
    fn from(key: RowKey) -> Self {
        Self {
            key,
            version: None,
            place: None,
        }
    }
}

/// Returns the lookup of rows, each of which may be stored or not. `others` are other rows of the
/// same section.
pub fn lookup_of(table: Option<Table>, rows: Vec<KeyedRow>, others: Vec<KeyedRow>) -> RowLookup {
    let rows = left_of(table, rows);
    let keys = |rows: &[KeyedRow]| rows.iter().map(|row| row.key).collect::<Vec<_>>();
    let others = left_of(table, others);
    let lookup = RowLookup::rows(keys(&rows), &keys(&others)).with_places(places(&rows, &others));
    // A key from a section's header does not tell which rows would replace its row.
    let versions: Option<Vec<EventVersion>> = rows.iter().map(|row| row.version).collect();
    match versions {
        Some(versions) => lookup.with_versions(versions),
        None => lookup,
    }
}

/// Returns the keys and places of rows of which some share a key with another one; none if that
/// would not tell these rows from others.
fn places(rows: &[KeyedRow], others: &[KeyedRow]) -> Vec<PlacedKey> {
    let keys: HashSet<_> = rows.iter().map(|row| row.key).collect();
    let are_shared =
        keys.len() < rows.len() || others.iter().any(|other| keys.contains(&other.key));
    if !are_shared || rows.iter().any(|row| row.place.is_none()) {
        return Vec::new();
    }
    let own: HashSet<PlacedKey> = rows.iter().map(KeyedRow::placed).collect();
    let is_told = |other: &KeyedRow| match other.place {
        Some(_) => !own.contains(&other.placed()),
        None => !keys.contains(&other.key),
    };
    match others.iter().all(is_told) {
        true => own.into_iter().collect(),
        false => Vec::new(),
    }
}

/// Returns the rows that can be in the table: `events` keeps only the last one of an identity,
/// within one block from the insert on.
fn left_of(table: Option<Table>, mut rows: Vec<KeyedRow>) -> Vec<KeyedRow> {
    if table == Some(Table::Events) {
        let identity = |row: &KeyedRow| (row.key.id, row.version.map(|it| it.identity));
        rows.sort_unstable_by_key(|row| (identity(row), Reverse(row.key.received_at)));
        rows.dedup_by_key(|row| identity(row));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_clickhouse::EventIdentity;
    use millrace_rows::{Micros, ProjectId};
    use uuid::Uuid;

    fn event(project_id: i64, name: &[u8], at: i64) -> KeyedRow {
        let (uuid, day) = (Uuid::from_u128(7), Micros(5));
        let created_at = Micros(at);
        KeyedRow {
            key: RowKey {
                id: uuid,
                received_at: created_at,
                index: None,
            },
            version: Some(EventVersion {
                identity: EventIdentity::new(ProjectId(project_id), uuid, day, name, b"d"),
                created_at,
            }),
            place: None,
        }
    }

    #[test]
    fn events_of_one_uuid_replace_each_other_if_their_identity_is_one() {
        let rows = vec![
            event(1, b"a", 1),
            event(1, b"a", 2),
            event(2, b"a", 2),
            event(1, b"b", 1),
        ];
        let mut left = left_of(Some(Table::Events), rows.clone());
        left.sort_unstable_by_key(|row| (row.key.received_at, row.version.unwrap().identity));
        let times: Vec<i64> = left.iter().map(|row| row.key.received_at.0).collect();
        assert_eq!(times, [1, 2, 2], "the later of two, and others' events");
        assert_eq!(left_of(Some(Table::PersonUpdates), rows).len(), 4);
    }

    #[test]
    fn rows_of_one_key_are_told_by_their_places_if_these_differ_from_all_others() {
        let placed = |place: Option<u64>| KeyedRow {
            place,
            ..event(1, b"a", 1)
        };
        let (one, other, unknown) = (placed(Some(1)), placed(Some(2)), placed(None));
        let table: [(&[KeyedRow], &[KeyedRow], usize); 6] = [
            (&[one], &[], 0),
            (&[one, other], &[], 2),
            (&[one, unknown], &[], 0),
            (&[one], &[other], 1),
            (&[one], &[one], 0),
            (&[one], &[unknown], 0),
        ];
        for (rows, others, told) in table {
            assert_eq!(places(rows, others).len(), told, "{rows:?}, {others:?}");
        }
    }
}
