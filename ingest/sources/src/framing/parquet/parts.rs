//! Rows whose columns take too much memory at once, put together from parts of them.
//!
//! A dictionary is in memory as long as its column is read, and each column has one. Where they do not fit beside one another
//! the columns are read in parts, one after the other, each by a reader of its own, and what is kept of a part are its rows
//! as lines. All parts have the same rows: as many as there is room for. Then it begins anew with the rows behind them.

use super::json::{self, Bound};
use super::rows::{self, ROW_BYTES_MAX};
use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

/// Bytes of the lines of all parts; more than a row may have.
pub(super) const LINES_BYTES_MAX: u64 = 64 << 20;
/// Rows that are read at a time, at most.
pub(super) const ROWS_MAX: u64 = 1 << 16;
/// Of a row that is too long, the parts are kept that have no more.
const KEPT_BYTES: usize = 64 << 10;
const EMPTY_LINE: &[u8] = b"{}\n";

/// Lines of the same rows.
#[derive(Default)]
pub(super) struct Parts {
    lines: Vec<Lines>,
    rows_left: u64,
    is_too_long: bool,
    line: Vec<u8>,
}

/// Lines of some columns.
#[derive(Default)]
pub(super) struct Lines {
    json: Vec<u8>,
    /// Where the next one begins.
    start: usize,
    rows: u64,
    is_too_long: bool,
}

// === impl Lines ===

impl Lines {
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes rows of a batch as long as there is room for them, one in any case; tells whether there is room for more.
    pub(super) fn take(&mut self, batch: &RecordBatch, bytes_max: u64) -> Result<bool, ArrowError> {
        let mut next = 0;
        while next < batch.num_rows() {
            let room = bytes_max.saturating_sub(self.json.len() as u64);
            let rows = rows::first(batch.slice(next, batch.num_rows() - next), room);
            if self.rows > 0 && json::bytes_max(&rows, Bound::Quick) > room {
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

    /// The next line without the braces around it.
    fn next(&mut self) -> &[u8] {
        let unread = self.json.get(self.start..).unwrap_or_default();
        let length = memchr::memchr(b'\n', unread).unwrap_or(unread.len());
        self.start += length + 1;
        let line = unread.get(..length).unwrap_or_default();
        let line = line.strip_prefix(b"{").unwrap_or(line);
        line.strip_suffix(b"}").unwrap_or(line)
    }

    /// Keeps the first line alone.
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

    /// Begins with other rows.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds the next part. Rows that it has no room for are none of these.
    pub(super) fn push(&mut self, lines: Lines) {
        self.is_too_long |= lines.is_too_long;
        self.rows_left = lines.rows;
        self.lines.push(lines);
        if self.rows_left > 1 {
            return;
        }
        self.lines.iter_mut().for_each(Lines::keep_first);
        self.is_too_long |= self.bytes() > ROW_BYTES_MAX;
        if self.is_too_long {
            let long = self.lines.iter_mut();
            let long = long.filter(|lines| lines.json.len() > KEPT_BYTES);
            long.for_each(|lines| lines.json = EMPTY_LINE.to_vec());
        }
    }

    /// Whether there is a line to hand out; all parts are there.
    pub(super) fn has_line(&self) -> bool {
        self.rows_left > 0
    }

    /// The next line, and whether it is only what is kept of a row that is too long.
    pub(super) fn line(&mut self) -> (&[u8], bool) {
        self.rows_left = self.rows_left.saturating_sub(1);
        let pieces: Vec<&[u8]> = self.lines.iter_mut().map(Lines::next).collect();
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
