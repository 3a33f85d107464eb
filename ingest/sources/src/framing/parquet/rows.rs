//! Writes the rows of a batch as lines of JSON, some at a time to bound the memory.

use super::json::{self, Bound};
use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

/// Most bytes of a row, as of a line.
pub(super) const ROW_BYTES_MAX: u64 = 32 << 20;
/// Most bytes of a column that is kept of a longer row.
const KEPT_COLUMN_BYTES: u64 = 4 << 10;
const KEPT_BYTES: u64 = 64 << 10;
/// Most bytes of lines that are written at once.
const LINES_BYTES_MAX: u64 = 32 << 20;
const STEP: usize = 16;

/// A batch of rows, of which some are written as lines.
#[derive(Default)]
pub(super) struct Rows {
    batch: Option<RecordBatch>,
    /// First row that is not written yet.
    next: usize,
    json: Vec<u8>,
    /// Offset of the next line.
    start: usize,
    is_too_long: bool,
}

impl Rows {
    /// Replaces the batch, once all its lines were taken.
    pub(super) fn take(&mut self, batch: RecordBatch) {
        self.batch = Some(batch);
        self.next = 0;
    }

    /// Writes lines if there are none; returns false if there are no rows left.
    pub(super) fn write(&mut self) -> Result<bool, ArrowError> {
        if self.start < self.json.len() {
            return Ok(true);
        }
        if self.json.capacity() as u64 > LINES_BYTES_MAX {
            self.json = Vec::new();
        }
        self.json.clear();
        self.start = 0;
        let Some(batch) = &self.batch else {
            return Ok(false);
        };
        let left = batch.num_rows().saturating_sub(self.next);
        if left == 0 {
            // The pages that rows point into are freed before more are read.
            self.batch = None;
            return Ok(false);
        }
        let rows = first(batch.slice(self.next, left), LINES_BYTES_MAX);
        self.next += rows.num_rows();
        self.is_too_long = write(&mut self.json, rows)?;
        Ok(true)
    }

    /// Next line; the flag is true if it has only the kept columns of a row that is too long.
    pub(super) fn line(&mut self) -> (&[u8], bool) {
        let unread = self.json.get(self.start..).unwrap_or_default();
        let length = memchr::memchr(b'\n', unread).unwrap_or(unread.len());
        self.start += length + 1;
        let line = unread.get(..length).unwrap_or_default();
        (line, self.is_too_long)
    }
}

/// Slices off as many of the first rows as take at most `bytes_max` as lines, at least one.
pub(super) fn first(mut rows: RecordBatch, bytes_max: u64) -> RecordBatch {
    while rows.num_rows() > 1 && json::bytes_max(&rows, Bound::Quick) > bytes_max {
        rows = rows.slice(0, (rows.num_rows() / STEP).max(1));
    }
    rows
}

/// Writes rows as lines; of a row that is too long only the kept columns, and then returns true.
pub(super) fn write(json: &mut Vec<u8>, mut rows: RecordBatch) -> Result<bool, ArrowError> {
    let is_too_long = rows.num_rows() == 1
        && json::bytes_max(&rows, Bound::Quick) > ROW_BYTES_MAX
        && json::bytes_max(&rows, Bound::Close) > ROW_BYTES_MAX;
    if is_too_long {
        rows = rows.project(&small_columns(&rows))?;
    }
    json::write(json, &rows)?;
    Ok(is_too_long)
}

/// Short columns of a row, by which it can be identified.
fn small_columns(row: &RecordBatch) -> Vec<usize> {
    let mut kept_bytes = 0;
    let columns = 0..row.num_columns();
    columns
        .filter(|column| {
            let bytes = json::column_bytes_max(row, *column);
            let is_small = bytes <= KEPT_COLUMN_BYTES && kept_bytes + bytes <= KEPT_BYTES;
            kept_bytes += if is_small { bytes } else { 0 };
            is_small
        })
        .collect()
}
