//! Bytes in, lines that can be stored out; rows and changes are counted on the way.

use crate::destination::json_text::storable;
use crate::destination::lines::Lines;
use crate::error::ExportError;
use millrace_rows::counted;
use std::borrow::Cow;

/// What a run has handed over so far.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) lines: Lines,
    /// How many digits a number may have in JSON.
    digits_max: usize,
    /// Rows of all parts.
    pub(crate) rows: u64,
    /// Rows of the parts that have ended.
    rows_ended: u64,
    pub(crate) rows_changed: u64,
}

impl Receiver {
    pub(crate) fn new(digits_max: usize) -> Self {
        Self {
            lines: Lines::default(),
            digits_max,
            rows: 0,
            rows_ended: 0,
            rows_changed: 0,
        }
    }

    /// A line as it can be stored, counted.
    pub(crate) fn take<'a>(&mut self, line: &'a [u8]) -> Cow<'a, str> {
        self.rows += 1;
        let line = storable(line, self.digits_max);
        if matches!(line, Cow::Owned(_)) {
            self.rows_changed += 1;
        }
        line
    }

    /// Ends a part that is said to have had so many rows.
    ///
    /// # Errors
    /// It had not.
    pub(crate) fn end_part(&mut self, rows: u64) -> Result<(), ExportError> {
        let had = self.rows - self.rows_ended;
        if had != rows || self.lines.is_within_line() {
            return Err(ExportError::retry(format!(
                "Of {} that came when the window was read, {had} came whole.",
                counted(rows, "row")
            )));
        }
        self.rows_ended = self.rows;
        Ok(())
    }
}
