//! Reads rows whose columns take too much memory together in parts of some columns.
//!
//! A dictionary is in memory while its column is read, and each column has one. If they exceed the
//! budget together, the columns are read in parts, one after the other, each by its own reader, and
//! only the lines of a part are kept. All parts have the same rows: as many as the lines may have
//! bytes for. Then the next rows are read.

use super::json::{self, Bound};
use super::rows::{self, ROW_BYTES_MAX};
use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

/// Most bytes of the lines of all parts; more than a row may have.
pub(super) const LINES_BYTES_MAX: u64 = 64 << 20;
/// Most rows that are read at a time.
pub(super) const ROWS_MAX: u64 = 1 << 16;
/// Most bytes of a part that is kept of a row that is too long.
const KEPT_BYTES: usize = 64 << 10;
const EMPTY_LINE: &[u8] = b"{}\n";

/// Lines of all parts, which have the same rows.
#[derive(Default)]
pub(super) struct Parts {
    lines: Vec<PartLines>,
    rows_left: u64,
    is_too_long: bool,
    line: Vec<u8>,
}

/// Lines of one part of the columns.
#[derive(Default)]
pub(super) struct PartLines {
    json: Vec<u8>,
    /// Offset of the next line.
    start: usize,
    rows: u64,
    is_too_long: bool,
}

// === impl PartLines ===

impl PartLines {
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes rows of a batch while `bytes_max` allows, at least one; returns true if it allows
    /// more.
    pub(super) fn take(&mut self, batch: &RecordBatch, bytes_max: u64) -> Result<bool, ArrowError> {
        let mut next = 0;
        while next < batch.num_rows() {
            let available = bytes_max.saturating_sub(self.json.len() as u64);
            let rows = rows::first(batch.slice(next, batch.num_rows() - next), available);
            if self.rows > 0 && json::bytes_max(&rows, Bound::Quick) > available {
                return Ok(false);
            }
            next += rows.num_rows();
            self.rows += rows.num_rows() as u64;
            if rows::write(&mut self.json, rows)? {
                self.is_too_long = true;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Next line without the braces around it.
    fn next(&mut self) -> &[u8] {
        let unread = self.json.get(self.start..).unwrap_or_default();
        let length = memchr::memchr(b'\n', unread).unwrap_or(unread.len());
        self.start += length + 1;
        let line = unread.get(..length).unwrap_or_default();
        let line = line.strip_prefix(b"{").unwrap_or(line);
        line.strip_suffix(b"}").unwrap_or(line)
    }

    /// Keeps only the first line.
    fn keep_first(&mut self) {
        if let Some(end) = memchr::memchr(b'\n', &self.json) {
            self.json.truncate(end + 1);
            self.json.shrink_to_fit();
        }
    }
}

// === impl Parts ===

impl Parts {
    /// Bytes that the lines take in memory.
    pub(super) fn bytes(&self) -> u64 {
        let lines = self.lines.iter();
        lines.map(|lines| lines.json.capacity() as u64).sum()
    }

    /// Removes all lines.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds the next part. Rows that it does not have are dropped from all.
    pub(super) fn push(&mut self, lines: PartLines) {
        self.is_too_long |= lines.is_too_long;
        self.rows_left = lines.rows;
        self.lines.push(lines);
        if self.rows_left > 1 {
            return;
        }
        self.lines.iter_mut().for_each(PartLines::keep_first);
        self.is_too_long |= self.bytes() > ROW_BYTES_MAX;
        if self.is_too_long {
            let long = self.lines.iter_mut();
            let long = long.filter(|lines| lines.json.len() > KEPT_BYTES);
            long.for_each(|lines| lines.json = EMPTY_LINE.to_vec());
        }
    }

    /// Returns true if there is a line left, once all parts were added.
    pub(super) fn has_line(&self) -> bool {
        self.rows_left > 0
    }

    /// Next line; the flag is true if it has only the kept parts of a row that is too long.
    pub(super) fn line(&mut self) -> (&[u8], bool) {
        self.rows_left = self.rows_left.saturating_sub(1);
        let pieces: Vec<&[u8]> = self.lines.iter_mut().map(PartLines::next).collect();
        let bytes: usize = pieces.iter().map(|piece| piece.len() + 1).sum();
        let is_too_long = self.is_too_long || bytes as u64 > ROW_BYTES_MAX;
        self.line.clear();
        self.line.push(b'{');
        for piece in pieces {
            if piece.is_empty() || (is_too_long && piece.len() > KEPT_BYTES) {
                continue;
            }
            if self.line.len() > 1 {
                self.line.push(b',');
            }
            self.line.extend_from_slice(piece);
        }
        self.line.push(b'}');
        (&self.line, is_too_long)
    }
}
