//! Splits bytes into storable lines, and counts rows and changed rows.

use crate::destination::json_text::storable;
use crate::destination::lines::Lines;
use crate::error::ExportError;
use millrace_rows::counted;
use std::borrow::Cow;

/// Rows that a run has handed over so far.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) lines: Lines,
    /// Digits of a number in JSON at most.
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

    /// Makes a line storable, and counts it.
    pub(crate) fn take<'a>(&mut self, line: &'a [u8]) -> Cow<'a, str> {
        self.rows += 1;
        let line = storable(line, self.digits_max);
        if matches!(line, Cow::Owned(_)) {
            self.rows_changed += 1;
        }
        line
    }

    /// Ends a part, and checks its number of rows.
    ///
    /// # Errors
    /// The part had another number of rows.
    pub(crate) fn end_part(&mut self, rows: u64) -> Result<(), ExportError> {
        let had = self.rows - self.rows_ended;
        if had != rows || self.lines.is_within_line() {
            return Err(ExportError::retryable(format!(
                "Of {} that were read of the window, {had} arrived complete.",
                counted(rows, "row")
            )));
        }
        self.rows_ended = self.rows;
        Ok(())
    }
}
