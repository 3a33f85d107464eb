//! Reads updates of persons and groups from ClickHouse, in the order of arrival.
//!
//! | Module | Holds |
//! |---|---|
//! | `range` | projects and times of what is read, as SQL |
//! | `row_binary` | rows in the format that ClickHouse answers |

mod range;
mod row_binary;

pub(crate) use range::{AppliedPosition, ProjectFilter, Range};

use crate::failure::Failure;
use crate::state::PersonUpdate;
use millrace_clickhouse::{ClickHouse, ReadOptions, nonce_column};
use millrace_rows::{ProjectId, Table};
use range::{conditions, statement};
use row_binary::{COLUMNS, Input, behind_header, row};
use uuid::Uuid;

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

/// Reads updates in their order: up to a number of rows and, roughly, of bytes, but at least one
/// row.
pub(crate) async fn read(
    clickhouse: &ClickHouse,
    range: &Range<'_>,
    (rows_max, bytes_max): (usize, usize),
) -> Result<Updates, Failure> {
    let nonce = nonce_column();
    let table = clickhouse.source(Table::PersonUpdates);
    let sql = statement(&table, range, rows_max, &nonce);
    let columns: Vec<&str> = std::iter::once(nonce.as_str()).chain(COLUMNS).collect();
    let options = ReadOptions::new(format!("persons-{}", Uuid::new_v4()));
    let mut stream = clickhouse.read(&sql, &options)?;
    let (mut rows, mut bytes, mut taken) = (Vec::new(), Vec::new(), 0);
    let mut is_proven = false;
    while let Some(piece) = stream.next().await? {
        taken += piece.len();
        bytes.extend_from_slice(&piece);
        if !is_proven {
            let Some(rest) = behind_header(&bytes, &columns)? else {
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
    let nonce = nonce_column();
    let sql = format!(
        "SELECT team_id AS {nonce}, toInt64(count()) AS waiting FROM {} WHERE {} GROUP BY team_id \
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
    let columns = [nonce.as_str(), "waiting"];
    let mut input = Input::new(behind_header(&bytes, &columns)?.ok_or(Failure::Unproven)?);
    let mut counts = Vec::new();
    while let Some(project_id) = input.i64() {
        let waiting = input.i64().ok_or(Failure::Malformed)?;
        counts.push((ProjectId(project_id), usize::try_from(waiting).unwrap_or(0)));
    }
    if !input.is_empty() {
        return Err(Failure::Malformed);
    }
    Ok(counts)
}
