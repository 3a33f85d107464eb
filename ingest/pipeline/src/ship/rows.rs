//! Finds rows in RowBinary, so that a block that ClickHouse refuses can be cut between them.
//!
//! The columns come from the insert target, by name, so that column lists of older versions can
//! be cut as well.

use millrace_rows::{Micros, RowKey};
use std::ops::Range;
use uuid::Uuid;

/// One column of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Fixed(usize),
    Text,
    /// The id of the row's key, as UUID …
    Id,
    /// … or as text.
    TextId,
    /// The time of the row's key.
    ReceivedAt,
    /// The index of the row's key.
    Index,
}

/// The columns of an insert target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout(Vec<Column>);

/// One row found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Range of the row's bytes.
    pub bytes: Range<usize>,
    /// Key of the row, if it has one.
    pub key: Option<RowKey>,
}

/// Error of bytes that are not rows of the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("row {row} does not end within the block")]
pub struct IncompleteRow {
    /// Index of the row, from 0.
    pub row: usize,
}

impl Layout {
    /// The layout of an insert target; `None` if a column is not known.
    pub fn of(insert_target: &str) -> Option<Self> {
        let (_, columns) = insert_target.split_once('(')?;
        let columns = columns.trim_end().strip_suffix(')')?;
        let columns = columns
            .split(',')
            .map(|name| column(name.trim().trim_matches('`')));
        columns.collect::<Option<Vec<Column>>>().map(Self)
    }

    /// The rows in `bytes`.
    ///
    /// # Errors
    /// If the bytes do not end with a row.
    pub fn rows(&self, bytes: &[u8]) -> Result<Vec<Row>, IncompleteRow> {
        let mut rows = Vec::new();
        let mut start = 0;
        while start < bytes.len() {
            let rest = bytes.get(start..).unwrap_or_default();
            let mut row = self.row(rest).ok_or(IncompleteRow { row: rows.len() })?;
            row.bytes = start..start + row.bytes.end;
            start = row.bytes.end;
            rows.push(row);
        }
        Ok(rows)
    }

    /// The rows in `bytes` up to the first that does not end within them.
    pub fn leading_rows(&self, bytes: &[u8]) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        loop {
            let start = rows.last().map_or(0, |row| row.bytes.end);
            let rest = bytes.get(start..).filter(|rest| !rest.is_empty());
            let Some(mut row) = rest.and_then(|rest| self.row(rest)) else {
                return rows;
            };
            row.bytes = start..start + row.bytes.end;
            rows.push(row);
        }
    }

    /// The first row.
    fn row(&self, bytes: &[u8]) -> Option<Row> {
        let mut rest = bytes;
        let (mut id, mut received_at, mut index) = (None, None, None);
        for column in &self.0 {
            match column {
                Column::Fixed(width) => {
                    rest = rest.split_at_checked(*width)?.1;
                }
                Column::Text => {
                    rest = text(rest)?.1;
                }
                Column::Id => {
                    let (value, tail) = rest.split_first_chunk::<16>()?;
                    id = Some(uuid(*value));
                    rest = tail;
                }
                Column::TextId => {
                    let (value, tail) = text(rest)?;
                    id = std::str::from_utf8(value)
                        .ok()
                        .and_then(|it| it.parse().ok());
                    rest = tail;
                }
                Column::ReceivedAt => {
                    let (value, tail) = number(rest)?;
                    received_at = Some(Micros(value));
                    rest = tail;
                }
                Column::Index => {
                    let (value, tail) = rest.split_first_chunk::<4>()?;
                    index = Some(u32::from_le_bytes(*value));
                    rest = tail;
                }
            }
        }
        // In other tables the id alone is the row's own.
        let index = index.filter(|_| !self.0.contains(&Column::Id));
        let key = id.zip(received_at).map(|(id, received_at)| RowKey {
            id,
            received_at,
            index,
        });
        Some(Row {
            bytes: 0..bytes.len() - rest.len(),
            key,
        })
    }
}

fn column(name: &str) -> Option<Column> {
    Some(match name {
        "uuid" => Column::Id,
        "request_id" => Column::TextId,
        "created_at" | "received_at" => Column::ReceivedAt,
        "team_id" | "timestamp" => Column::Fixed(8),
        "index" => Column::Index,
        "historical_migration" => Column::Fixed(1),
        "event" | "properties" | "distinct_id" | "code" | "attr" | "detail" | "raw" | "kind"
        | "other_id" | "person_set" | "person_set_once" | "person_unset" | "group_type"
        | "group_key" | "group_set" => Column::Text,
        _ => return None,
    })
}

/// Splits off a number of 8 bytes.
pub(super) fn number(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    Some((i64::from_le_bytes(*number), rest))
}

/// Splits off a byte string that follows its length in LEB128.
fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut length = 0_u64;
    let mut rest = bytes;
    for shift in (0..64).step_by(7) {
        let (&byte, tail) = rest.split_first()?;
        rest = tail;
        length |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return rest.split_at_checked(usize::try_from(length).ok()?);
        }
    }
    None
}

fn uuid(bytes: [u8; 16]) -> Uuid {
    let (high, low) = bytes.split_at(8);
    let half = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0_u64, |all, &b| all << 8 | u64::from(b))
    };
    Uuid::from_u64_pair(half(high), half(low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_rows::{EventRow, PersonUpdateRow, ProjectId, RejectedRow, Table, UpdateKind};

    fn event(name: &str, n: u128) -> (Vec<u8>, RowKey) {
        let row = EventRow {
            uuid: Uuid::from_u128(n),
            event: name.as_bytes(),
            properties: &[b"{\"a\":", b"1}"],
            timestamp: Micros(5),
            team_id: ProjectId(1),
            distinct_id: b"somebody",
            created_at: Micros(n as i64),
            historical_migration: false,
        };
        let mut bytes = Vec::new();
        row.append_to(&mut bytes);
        (bytes, row.key())
    }

    #[test]
    fn rows_of_every_table_are_found_with_their_keys() {
        let long = "x".repeat(300);
        let (first, first_key) = event("a", 1 << 70 | 2);
        let (second, second_key) = event(&long, 3);
        let layout = Layout::of(Table::Events.insert_target()).unwrap();
        let rows = layout.rows(&[first.clone(), second].concat()).unwrap();
        let keys: Vec<_> = rows.iter().map(|row| row.key.unwrap()).collect();
        assert_eq!(keys, [first_key, second_key]);
        assert_eq!(rows[0].bytes, 0..first.len());

        let rejected = RejectedRow {
            team_id: ProjectId(1),
            received_at: Micros(77),
            request_id: Uuid::from_u128(8),
            index: 3,
            code: "c",
            attr: "",
            detail: "d",
            raw: b"{}",
            historical_migration: true,
        };
        let mut bytes = Vec::new();
        rejected.append_to(&mut bytes);
        let layout = Layout::of(Table::RejectedEvents.insert_target()).unwrap();
        assert_eq!(layout.rows(&bytes).unwrap()[0].key, Some(rejected.key()));
    }

    #[test]
    fn rows_of_persons_are_found_by_their_events() {
        let update = PersonUpdateRow {
            team_id: ProjectId(1),
            created_at: Micros(77),
            request_id: Uuid::from_u128(8),
            index: 3,
            uuid: Uuid::from_u128(9),
            timestamp: Micros(5),
            kind: UpdateKind::Alias,
            distinct_id: "d",
            other_id: "o",
            person_set: b"{}",
            person_set_once: b"",
            person_unset: b"",
            group_type: "",
            group_key: "",
            group_set: b"",
        };
        let mut bytes = Vec::new();
        update.append_to(&mut bytes);
        let layout = Layout::of(Table::PersonUpdates.insert_target()).unwrap();
        assert_eq!(layout.rows(&bytes).unwrap()[0].key, Some(update.key()));
    }

    #[test]
    fn an_incomplete_row_is_reported_by_its_index() {
        let layout = Layout::of(Table::Events.insert_target()).unwrap();
        let (first, _) = event("a", 1);
        let (second, _) = event("b", 2);
        let whole = [first, second].concat();
        let cut = layout.rows(&whole[..whole.len() - 1]);
        assert_eq!(cut, Err(IncompleteRow { row: 1 }));
    }

    #[test]
    fn an_unknown_column_means_that_rows_cannot_be_found() {
        assert_eq!(Layout::of("events(uuid,colour)"), None);
        assert_eq!(Layout::of("events"), None);
    }
}
