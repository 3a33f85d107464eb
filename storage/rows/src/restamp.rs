//! A later time of receipt for rows that are encoded already.
//!
//! Rows of a large body take seconds to encode. If they kept the time of their request, the
//! watermark would have to wait for them, and with it exports and persons of all projects.

use crate::{Batch, Micros, Month, RowGroup, Table};
use Column::{Fixed, Text};

/// Columns that are passed over.
#[derive(Clone, Copy)]
enum Column {
    /// Number of bytes.
    Fixed(usize),
    /// Bytes behind their length in LEB128.
    Text,
}

impl Batch {
    /// Gives all rows another time of receipt. Returns false if rows do not have the columns of
    /// their table, which would be a mistake of ours.
    #[must_use]
    pub fn restamp(&mut self, received_at: Micros) -> bool {
        let mut groups = self.groups.iter_mut();
        groups.all(|group| restamp(group, received_at))
    }
}

fn restamp(group: &mut RowGroup, received_at: Micros) -> bool {
    // Months of events are those of their own times.
    if group.table != Table::Events {
        group.month = Month::of(received_at);
    }
    for key in &mut group.keys {
        key.received_at = received_at;
    }
    let (before, behind) = columns(group.table);
    let mut rest = group.bytes.as_mut_slice();
    while !rest.is_empty() {
        let Some((time, tail)) = skip(rest, before).and_then(<[u8]>::split_first_chunk_mut) else {
            return false;
        };
        *time = received_at.0.to_le_bytes();
        let Some(tail) = skip(tail, behind) else {
            return false;
        };
        rest = tail;
    }
    true
}

/// Columns before and behind the time of receipt, in the order of [`Table::insert_target`].
const fn columns(table: Table) -> (&'static [Column], &'static [Column]) {
    match table {
        Table::Events => (
            &[Fixed(16), Text, Text, Fixed(8), Fixed(8), Text],
            &[Fixed(1)],
        ),
        Table::RejectedEvents => (
            &[Fixed(8)],
            &[Text, Fixed(4), Text, Text, Text, Text, Fixed(1)],
        ),
        Table::PersonUpdates => (
            &[Fixed(8)],
            &[
                Text,
                Fixed(4),
                Fixed(16),
                Fixed(8),
                Text,
                Text,
                Text,
                Text,
                Text,
                Text,
                Text,
                Text,
                Text,
            ],
        ),
    }
}

/// Bytes behind some columns.
fn skip<'a>(mut bytes: &'a mut [u8], columns: &[Column]) -> Option<&'a mut [u8]> {
    for column in columns {
        let length = match column {
            Fixed(length) => *length,
            Text => {
                let (length, tail) = text_length(bytes)?;
                bytes = tail;
                length
            }
        };
        bytes = bytes.split_at_mut_checked(length)?.1;
    }
    Some(bytes)
}

/// Length of a text, and the bytes behind it.
fn text_length(mut bytes: &mut [u8]) -> Option<(usize, &mut [u8])> {
    let mut length = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, tail) = bytes.split_first_mut()?;
        length |= u64::from(*byte & 0x7f) << shift;
        bytes = tail;
        if *byte & 0x80 == 0 {
            return Some((usize::try_from(length).ok()?, bytes));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventRow, Lane, PersonUpdateRow, ProjectId, RejectedRow, RowKey, UpdateKind};
    use uuid::Uuid;

    /// A group of rows whose texts have these lengths.
    fn group(table: Table, lengths: &[usize], received_at: Micros) -> RowGroup {
        let mut bytes = Vec::new();
        let mut keys = Vec::new();
        for (index, length) in lengths.iter().enumerate() {
            keys.push(append(
                table,
                index,
                &"é".repeat(*length),
                received_at,
                &mut bytes,
            ));
        }
        RowGroup {
            table,
            month: match table {
                Table::Events => Month::of(Micros(0)),
                _ => Month::of(received_at),
            },
            rows: u32::try_from(lengths.len()).unwrap(),
            bytes,
            keys,
        }
    }

    fn append(
        table: Table,
        index: usize,
        text: &str,
        received_at: Micros,
        out: &mut Vec<u8>,
    ) -> RowKey {
        let (id, index) = (
            Uuid::from_u128(index as u128),
            u32::try_from(index).unwrap(),
        );
        match table {
            Table::Events => {
                let row = EventRow {
                    uuid: id,
                    event: text.as_bytes(),
                    properties: &[b"{}", text.as_bytes()],
                    timestamp: Micros(0),
                    team_id: ProjectId(1),
                    distinct_id: text.as_bytes(),
                    created_at: received_at,
                    historical_migration: true,
                };
                row.append_to(out);
                row.key()
            }
            Table::RejectedEvents => {
                let row = RejectedRow {
                    team_id: ProjectId(1),
                    received_at,
                    request_id: id,
                    index,
                    code: text,
                    attr: "",
                    detail: text,
                    raw: text.as_bytes(),
                    historical_migration: false,
                };
                row.append_to(out);
                row.key()
            }
            Table::PersonUpdates => {
                let row = PersonUpdateRow {
                    team_id: ProjectId(1),
                    created_at: received_at,
                    request_id: id,
                    index,
                    uuid: id,
                    timestamp: Micros(5),
                    kind: UpdateKind::Identify,
                    distinct_id: text,
                    other_id: "",
                    person_set: text.as_bytes(),
                    person_set_once: b"",
                    person_unset: text.as_bytes(),
                    group_type: text,
                    group_key: "",
                    group_set: text.as_bytes(),
                };
                row.append_to(out);
                row.key()
            }
        }
    }

    #[test]
    fn restamped_rows_are_those_that_a_later_request_makes() {
        let (before, later) = (Micros(7), Micros(40 * 86_400_000_000));
        let lengths = [0, 1, 63, 64, 8_191, 8_192, 100_000, 3];
        let batch = |received_at| Batch {
            lane: Lane::Live,
            groups: Table::ALL
                .into_iter()
                .map(|table| group(table, &lengths, received_at))
                .collect(),
        };
        let mut restamped = batch(before);
        assert!(restamped.restamp(later));
        for (found, expected) in restamped.groups.iter().zip(&batch(later).groups) {
            assert_eq!(found.bytes, expected.bytes, "{:?}", expected.table);
            assert_eq!((found.month, &found.keys), (expected.month, &expected.keys));
        }
    }

    #[test]
    fn bytes_that_are_no_rows_are_not_restamped() {
        for table in Table::ALL {
            let whole = group(table, &[1], Micros(7));
            for end in 1..whole.bytes.len() {
                let mut cut = group(table, &[1], Micros(7));
                cut.bytes.truncate(end);
                let mut batch = Batch {
                    lane: Lane::Live,
                    groups: vec![cut],
                };
                assert!(!batch.restamp(Micros(8)), "{table:?} {end}");
            }
        }
    }
}
