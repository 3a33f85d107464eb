//! Rows of updates in RowBinary with names and types, as ClickHouse answers them.

use crate::failure::Failure;
use crate::state::{PersonUpdate, UpdatePosition};
use millrace_rows::{Micros, ProjectId, UpdateKind};
use uuid::Uuid;

/// Columns of an update, in the order in which they are read, behind `team_id`, which each query
/// names anew.
pub(super) const COLUMNS: [&str; 14] = [
    "created_at",
    "request_id",
    "index",
    "uuid",
    "timestamp",
    "kind",
    "distinct_id",
    "other_id",
    "person_set",
    "person_set_once",
    "person_unset",
    "group_type",
    "group_key",
    "group_set",
];

/// Bytes behind the names and types of the columns, if these have all come. ClickHouse answers them
/// also when there are no rows; a gateway's page, or an answer without a body, does not.
pub(super) fn behind_header<'a>(
    bytes: &'a [u8],
    columns: &[&str],
) -> Result<Option<&'a [u8]>, Failure> {
    let mut input = Input(bytes);
    let Some(count) = input.length() else {
        return Ok(None);
    };
    if count != columns.len() {
        return Err(Failure::Unproven);
    }
    for column in columns {
        match input.text() {
            Some(name) if name == *column => {}
            Some(_) => return Err(Failure::Unproven),
            None => return Ok(None),
        }
    }
    let has_types = columns.iter().all(|_| input.text().is_some());
    Ok(has_types.then_some(input.0))
}

/// Parses the first row of some bytes, if it is complete; returns it and the bytes behind it. The
/// row is none if it has a kind or an id that this version does not know.
pub(super) fn row(bytes: &[u8]) -> Option<(Option<PersonUpdate>, &[u8])> {
    let mut input = Input(bytes);
    let project_id = ProjectId(input.i64()?);
    let created_at = Micros(input.i64()?);
    let request_id = Uuid::parse_str(&input.text()?).ok();
    let index = i64::from(u32::from_le_bytes(input.array()?));
    let uuid = input.uuid()?;
    let timestamp = Micros(input.i64()?);
    let kind = UpdateKind::named(&input.text()?);
    let [distinct_id, other_id, person_set, person_set_once] = input.texts()?;
    let [person_unset, group_type, group_key, group_set] = input.texts()?;
    let known = request_id.zip(kind).map(|(request_id, kind)| PersonUpdate {
        project_id,
        position: UpdatePosition {
            created_at,
            request_id,
            index,
        },
        uuid,
        timestamp,
        kind,
        distinct_id,
        other_id,
        person_set,
        person_set_once,
        person_unset,
        group_type,
        group_key,
        group_set,
    });
    Some((known, input.0))
}

/// Bytes that are left to parse.
pub(super) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// Begins with all of some bytes.
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns true if nothing is left.
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(*head)
    }

    /// Takes a number; `None` if it is not complete.
    pub(super) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// Two little-endian halves, the upper one first.
    fn uuid(&mut self) -> Option<Uuid> {
        let high = u64::from_le_bytes(self.array()?);
        let low = u64::from_le_bytes(self.array()?);
        Some(Uuid::from_u64_pair(high, low))
    }

    /// Length in LEB128.
    fn length(&mut self) -> Option<usize> {
        let mut length = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            length |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return usize::try_from(length).ok();
            }
        }
        None
    }

    /// Bytes behind their length.
    fn text(&mut self) -> Option<String> {
        let length = self.length()?;
        let (head, tail) = self.0.split_at_checked(length)?;
        self.0 = tail;
        Some(String::from_utf8_lossy(head).into_owned())
    }

    fn texts<const N: usize>(&mut self) -> Option<[String; N]> {
        let mut texts = [const { String::new() }; N];
        for text in &mut texts {
            *text = self.text()?;
        }
        Some(texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_rows::PersonUpdateRow;

    #[test]
    fn a_complete_row_is_parsed_as_written() {
        let written = PersonUpdateRow {
            team_id: ProjectId(1),
            created_at: Micros(2),
            request_id: Uuid::from_u128(3),
            index: 4,
            uuid: Uuid::from_u128(5 << 70 | 5),
            timestamp: Micros(6),
            kind: UpdateKind::Identify,
            distinct_id: "d",
            other_id: "o",
            person_set: b"{\"a\":1}",
            person_set_once: b"",
            person_unset: b"[\"b\"]",
            group_type: "",
            group_key: &"k".repeat(300),
            group_set: b"",
        };
        let mut bytes = Vec::new();
        written.append_to(&mut bytes);
        for end in 0..bytes.len() {
            assert!(row(&bytes[..end]).is_none(), "{end}");
        }
        let (read, rest) = row(&bytes).unwrap();
        let read = read.unwrap();
        assert_eq!((read.position.index, rest), (4, &[][..]));
        assert_eq!(
            (read.uuid, read.position.request_id),
            (written.uuid, written.request_id)
        );
        assert_eq!(
            (read.kind, read.group_key.len()),
            (UpdateKind::Identify, 300)
        );
        assert_eq!(read.person_unset, "[\"b\"]");
    }

    #[test]
    fn an_answer_that_does_not_name_its_columns_is_refused() {
        let answer = b"\x02\x01a\x01b\x05Int64\x06String rows";
        for end in 0..answer.len() {
            let behind = behind_header(&answer[..end], &["a", "b"]).unwrap();
            let expected = end.checked_sub(18).map(|read| &answer[18..18 + read]);
            assert_eq!(behind, expected, "{end}");
        }
        for columns in [&["a"][..], &["a", "c"], &["a", "b", "c"]] {
            let refused = behind_header(answer, columns);
            assert!(matches!(refused, Err(Failure::Unproven)), "{columns:?}");
        }
        let page = behind_header(b"<html>We are back soon</html>", &COLUMNS);
        assert!(matches!(page, Err(Failure::Unproven)));
    }
}
