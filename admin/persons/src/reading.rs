//! Reads updates of persons and groups from ClickHouse, in the order of arrival.

use crate::failure::Failure;
use millrace_catalog::{PersonBacklog, PersonUpdate, UpdatePosition, UtcTime};
use millrace_clickhouse::{ClickHouse, ReadOptions};
use millrace_rows::{Micros, ProjectId, Table, UpdateKind};
use uuid::Uuid;

/// Columns of an update, in the order in which they are read.
const COLUMNS: [&str; 15] = [
    "team_id",
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

/// Projects whose updates are counted at most, those with the most first.
const COUNTED_PROJECTS_MAX: usize = 20_000;

/// Updates that were read, in their order.
#[derive(Debug)]
pub(crate) struct Updates {
    pub rows: Vec<PersonUpdate>,
    /// True if there may be more before the watermark.
    pub is_cut: bool,
    /// Bytes that were read.
    pub bytes: usize,
}

impl Updates {
    /// No updates, and no more to be read.
    pub(crate) const fn none() -> Self {
        Self {
            rows: Vec::new(),
            is_cut: false,
            bytes: 0,
        }
    }
}

/// Place up to which updates are applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// Place of the last update that was applied.
    pub after: &'a UpdatePosition,
    /// Arrival time before which all were applied; it may be later than that place.
    pub passed: Option<UtcTime>,
}

/// Projects whose updates are read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProjectFilter<'a> {
    /// Projects with a backlog, at least one, each from its own place.
    Backlogs(&'a [&'a PersonBacklog]),
    /// All projects but those with a backlog, from the common place.
    AllBut(&'a [PersonBacklog], Place<'a>),
}

/// Range of updates that are not applied yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range<'a> {
    pub projects: ProjectFilter<'a>,
    /// Watermark before which all have arrived.
    pub before: UtcTime,
}

/// Reads updates in their order: up to a number of rows and, roughly, of bytes, but at least one
/// row.
pub(crate) async fn read(
    clickhouse: &ClickHouse,
    range: &Range<'_>,
    (rows_max, bytes_max): (usize, usize),
) -> Result<Updates, Failure> {
    let sql = statement(&clickhouse.source(Table::PersonUpdates), range, rows_max);
    let options = ReadOptions::new(format!("persons-{}", Uuid::new_v4()));
    let mut stream = clickhouse.read(&sql, &options)?;
    let (mut rows, mut bytes, mut taken) = (Vec::new(), Vec::new(), 0);
    let mut is_proven = false;
    while let Some(piece) = stream.next().await? {
        taken += piece.len();
        bytes.extend_from_slice(&piece);
        if !is_proven {
            let Some(rest) = behind_header(&bytes, &COLUMNS)? else {
                continue;
            };
            let read = bytes.len() - rest.len();
            bytes.drain(..read);
            taken -= read;
            is_proven = true;
        }
        let mut rest = bytes.as_slice();
        while let Some((row, tail)) = row(rest) {
            rows.push(row.ok_or(Failure::Malformed)?);
            rest = tail;
        }
        let read = bytes.len() - rest.len();
        bytes.drain(..read);
        if taken > bytes_max && !rows.is_empty() {
            // The stream stops the query when it is dropped.
            let is_cut = true;
            return Ok(Updates {
                rows,
                is_cut,
                bytes: taken,
            });
        }
    }
    if !is_proven {
        return Err(Failure::Unproven);
    }
    if !bytes.is_empty() {
        return Err(Failure::Malformed);
    }
    let is_cut = rows.len() >= rows_max;
    Ok(Updates {
        rows,
        is_cut,
        bytes: taken,
    })
}

/// Counts the updates in a range by project: of those that have the most.
pub(crate) async fn count_by_project(
    clickhouse: &ClickHouse,
    range: &Range<'_>,
) -> Result<Vec<(ProjectId, usize)>, Failure> {
    let sql = format!(
        "SELECT team_id, toInt64(count()) AS waiting FROM {} WHERE {} GROUP BY team_id \
         ORDER BY waiting DESC, team_id LIMIT {COUNTED_PROJECTS_MAX} \
         FORMAT RowBinaryWithNamesAndTypes",
        clickhouse.source(Table::PersonUpdates),
        conditions(range),
    );
    let options = ReadOptions::new(format!("persons-{}", Uuid::new_v4()));
    let mut stream = clickhouse.read(&sql, &options)?;
    let mut bytes = Vec::new();
    while let Some(piece) = stream.next().await? {
        bytes.extend_from_slice(&piece);
    }
    let columns = ["team_id", "waiting"];
    let mut input = Input(behind_header(&bytes, &columns)?.ok_or(Failure::Unproven)?);
    let mut counts = Vec::new();
    while let Some(project_id) = input.i64() {
        let waiting = input.i64().ok_or(Failure::Malformed)?;
        counts.push((ProjectId(project_id), usize::try_from(waiting).unwrap_or(0)));
    }
    if !input.0.is_empty() {
        return Err(Failure::Malformed);
    }
    Ok(counts)
}

fn conditions(range: &Range<'_>) -> String {
    let until = instant(range.before.0);
    match range.projects {
        ProjectFilter::AllBut(backlogs, place) => {
            let project_ids = ids(backlogs.iter());
            let of = match backlogs {
                [] => String::new(),
                _ => format!(" AND team_id NOT IN ({project_ids})"),
            };
            format!("{} AND created_at < {until}{of}", place.conditions())
        }
        ProjectFilter::Backlogs(backlogs) => {
            let places = backlogs.iter().map(|backlog| Place::of(backlog).earliest());
            let from = instant(places.min().unwrap_or(range.before.0));
            let each: Vec<String> = backlogs
                .iter()
                .map(|backlog| {
                    let own = Place::of(backlog).conditions();
                    format!("(team_id = {} AND {own})", backlog.project_id.0)
                })
                .collect();
            // The first conditions are for the index of the table.
            format!(
                "created_at >= {from} AND created_at < {until} AND team_id IN ({}) AND ({})",
                ids(backlogs.iter().copied()),
                each.join(" OR ")
            )
        }
    }
}

fn instant(micros: i64) -> String {
    format!("fromUnixTimestamp64Micro({micros}, 'UTC')")
}

/// Ids of projects, as a list of SQL.
fn ids<'a>(backlogs: impl Iterator<Item = &'a PersonBacklog>) -> String {
    let ids: Vec<String> = backlogs.map(|it| it.project_id.0.to_string()).collect();
    ids.join(", ")
}

impl<'a> Place<'a> {
    fn of(backlog: &'a PersonBacklog) -> Self {
        Self {
            after: &backlog.position,
            passed: backlog.passed,
        }
    }

    /// Earliest arrival of what is left.
    fn earliest(self) -> i64 {
        let after = self.after.created_at.0;
        self.passed.map_or(after, |passed| passed.0.max(after))
    }

    fn conditions(self) -> String {
        let UpdatePosition {
            created_at,
            request_id,
            index,
        } = self.after;
        let (from, after) = (instant(self.earliest()), instant(created_at.0));
        // The first condition is for the index of the table.
        format!(
            "created_at >= {from} AND (created_at > {after} OR request_id > '{request_id}' \
             OR (request_id = '{request_id}' AND toInt64(`index`) > {index}))"
        )
    }
}

fn statement(table: &str, range: &Range<'_>, rows_max: usize) -> String {
    format!(
        "SELECT team_id, created_at, request_id, `index`, uuid, timestamp, toString(kind) AS kind, \
         distinct_id, other_id, person_set, person_set_once, person_unset, \
         toString(group_type) AS group_type, group_key, group_set \
         FROM {table} WHERE {} \
         ORDER BY created_at, request_id, `index` LIMIT {rows_max} \
         FORMAT RowBinaryWithNamesAndTypes",
        conditions(range),
    )
}

/// Bytes behind the names and types of the columns, if these have all come. ClickHouse answers them
/// also when there are no rows; a gateway's page, or an answer without a body, does not.
fn behind_header<'a>(bytes: &'a [u8], columns: &[&str]) -> Result<Option<&'a [u8]>, Failure> {
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
fn row(bytes: &[u8]) -> Option<(Option<PersonUpdate>, &[u8])> {
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

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(*head)
    }

    fn i64(&mut self) -> Option<i64> {
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
