//! Finds rows in RowBinary, so that a block that ClickHouse refuses can be cut between them.
//!
//! The columns come from the insert target, by name, so that column lists of older versions can
//! be cut as well.

use super::row_keys::KeyedRow;
use millrace_clickhouse::{EventIdentity, EventVersion, PlacedKey};
use millrace_rows::{Micros, ProjectId, RowKey};
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
    /// Project of the row.
    ProjectId,
    Timestamp,
    /// Name of an event.
    Name,
    DistinctId,
}

/// Fields that tell a row from others.
#[derive(Default)]
struct Fields<'a> {
    id: Option<Uuid>,
    received_at: Option<Micros>,
    index: Option<u32>,
    project_id: Option<ProjectId>,
    timestamp: Option<Micros>,
    name: Option<&'a [u8]>,
    distinct_id: Option<&'a [u8]>,
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
    /// Version of the row, if it is an event.
    pub version: Option<EventVersion>,
    /// Place of the row among rows of its key, if its distinct id tells the shard.
    pub place: Option<u64>,
}

impl Row {
    /// Key of the row with its version, if it has a key.
    pub fn keyed(&self) -> Option<KeyedRow> {
        let (version, place) = (self.version, self.place);
        self.key.map(|key| KeyedRow {
            key,
            version,
            place,
        })
    }
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
        let (mut rest, mut fields) = (bytes, Fields::default());
        for column in &self.0 {
            rest = column.read(rest, &mut fields)?;
        }
        // In other tables the id alone is the row's own.
        let has_own_id = self.0.contains(&Column::Id);
        let index = fields.index.filter(|_| !has_own_id);
        let key = fields.id.zip(fields.received_at);
        let key = key.map(|(id, received_at)| RowKey {
            id,
            received_at,
            index,
        });
        Some(Row {
            bytes: 0..bytes.len() - rest.len(),
            key,
            version: fields.version(),
            place: has_own_id.then(|| fields.place()).flatten(),
        })
    }
}

impl Column {
    /// Reads the column's value at the start of `rest`, and returns the bytes behind it.
    fn read<'a>(self, rest: &'a [u8], fields: &mut Fields<'a>) -> Option<&'a [u8]> {
        Some(match self {
            Self::Fixed(width) => rest.split_at_checked(width)?.1,
            Self::Text => text(rest)?.1,
            Self::Id => {
                let (value, tail) = rest.split_first_chunk::<16>()?;
                fields.id = Some(uuid(*value));
                tail
            }
            Self::TextId => {
                let (value, tail) = text(rest)?;
                let value = std::str::from_utf8(value).ok();
                fields.id = value.and_then(|it| it.parse().ok());
                tail
            }
            Self::ReceivedAt => {
                let (value, tail) = number(rest)?;
                fields.received_at = Some(Micros(value));
                tail
            }
            Self::Index => {
                let (value, tail) = rest.split_first_chunk::<4>()?;
                fields.index = Some(u32::from_le_bytes(*value));
                tail
            }
            Self::ProjectId => {
                let (value, tail) = number(rest)?;
                fields.project_id = Some(ProjectId(value));
                tail
            }
            Self::Timestamp => {
                let (value, tail) = number(rest)?;
                fields.timestamp = Some(Micros(value));
                tail
            }
            Self::Name => {
                let (value, tail) = text(rest)?;
                fields.name = Some(value);
                tail
            }
            Self::DistinctId => {
                let (value, tail) = text(rest)?;
                fields.distinct_id = Some(value);
                tail
            }
        })
    }
}

impl Fields<'_> {
    /// Place of a row among those of its key.
    fn place(&self) -> Option<u64> {
        self.distinct_id.map(PlacedKey::place_of)
    }

    /// Version of an event; `None` in other tables, whose rows have no name.
    fn version(&self) -> Option<EventVersion> {
        let (name, distinct_id) = (self.name?, self.distinct_id?);
        let identity = EventIdentity::new(
            self.project_id?,
            self.id?,
            self.timestamp?,
            name,
            distinct_id,
        );
        Some(EventVersion {
            identity,
            created_at: self.received_at?,
        })
    }
}

fn column(name: &str) -> Option<Column> {
    Some(match name {
        "uuid" => Column::Id,
        "request_id" => Column::TextId,
        "created_at" | "received_at" => Column::ReceivedAt,
        "team_id" => Column::ProjectId,
        "timestamp" => Column::Timestamp,
        "event" => Column::Name,
        "distinct_id" => Column::DistinctId,
        "index" => Column::Index,
        "historical_migration" => Column::Fixed(1),
        "properties" | "code" | "attr" | "detail" | "raw" | "kind" | "other_id" | "person_set"
        | "person_set_once" | "person_unset" | "group_type" | "group_key" | "group_set" => {
            Column::Text
        }
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
        let (project_id, id) = (ProjectId(1), first_key.id);
        let identity = EventIdentity::new(project_id, id, Micros(5), b"a", b"somebody");
        let created_at = first_key.received_at;
        let version = EventVersion {
            identity,
            created_at,
        };
        assert_eq!(rows[0].version, Some(version));

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
        let rows = layout.rows(&bytes).unwrap();
        assert_eq!((rows[0].key, rows[0].place), (Some(rejected.key()), None));
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
        let rows = layout.rows(&bytes).unwrap();
        assert_eq!(rows[0].key, Some(update.key()));
        assert_eq!(rows[0].version, None);
        assert_eq!(rows[0].place, Some(PlacedKey::place_of(b"d")));
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
