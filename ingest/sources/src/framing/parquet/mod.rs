//! Framing of Parquet: rows as JSON objects by column name, read by row group and page.
//!
//! The footer of such a file is at its end, so a stream is copied to a temporary file first.
//!
//! A file of some bytes can claim any number of rows, columns, and values, and pages unpack to
//! thousands of times their size. So every claim is checked first; the library decodes only what is
//! within the bounds:
//!
//! | Module | Bounds |
//! |---|---|
//! | `footer` | the footer of the file |
//! | `page` | pages, before they are unpacked |
//! | `values` | values of a page, before they are decoded, with `lengths`, those of texts |
//! | `budget` | memory of the pages of all columns, and of copies made of them for a batch |
//! | `json` | rows, before they are written |
//! | `parts` | columns that exceed the budget together: read some after the others |
//!
//! With these bounds a file takes at most 512 MiB, whatever is in it, and usually far less. A row
//! that is too long is an error of the record; a page or a row that would take more is an error of
//! the file, made in `failure`. `columns` chooses the types, `pages` gives pages to the library,
//! `reader` reads a row group, `rows` turns its batches into lines.

mod budget;
mod columns;
mod failure;
mod footer;
mod json;
mod lengths;
mod page;
mod pages;
mod parts;
mod reader;
mod rows;
mod times;
mod values;

use crate::{FileError, Framing, Input, Position, Record, RecordError};
use failure::{guarded, malformed};
use parquet::file::metadata::ParquetStatisticsPolicy;
use parquet::file::metadata::{ParquetMetaDataOptions, ParquetMetaDataReader};
use parts::{LINES_BYTES_MAX, PartLines, Parts, ROWS_MAX};
use reader::{ParquetSource, ReadPlan, ReadRequest, Reader};
use rows::Rows;
use std::io::{self, Seek};
use std::ops::Range;

/// Most passes over the columns of a row group in parts: each pass unpacks all dictionaries.
const PASSES_MAX: u32 = 512;

/// Reads the rows of a Parquet file.
pub struct Parquet {
    source: ParquetSource,
    at: Position,
    /// Rows of the row group that are still to come, with those in `rows` and `parts`.
    rows_left: u64,
    group: Option<CurrentGroup>,
    rows: Rows,
    parts: Parts,
}

/// The row group that is being read.
struct CurrentGroup {
    plan: ReadPlan,
    /// Reader of all columns at once, if they fit into the budget.
    reader: Option<Reader>,
    /// Number of passes over columns in parts.
    passes: u32,
}

impl Parquet {
    /// Opens a file at a position.
    ///
    /// # Errors
    /// The file cannot be read, is no Parquet, exceeds the bounds, or ends before the position.
    pub fn open(input: Input, at: Position) -> Result<Self, FileError> {
        let file = match input {
            Input::Plain(file) => file,
            Input::Stream(mut stream) => {
                let mut copy = tempfile::tempfile()?;
                io::copy(&mut stream, &mut copy)?;
                copy.rewind()?;
                copy
            }
        };
        footer::check(&file)?;
        let skip = ParquetStatisticsPolicy::SkipAll;
        let options = ParquetMetaDataOptions::new()
            .with_column_stats_policy(skip.clone())
            .with_size_stats_policy(skip);
        let metadata = guarded(|| {
            ParquetMetaDataReader::new()
                .with_metadata_options(Some(options))
                .parse_and_finish(&file)
        })?;
        let mut parquet = Self {
            source: ParquetSource::new(file, metadata)?,
            at,
            rows_left: 0,
            group: None,
            rows: Rows::default(),
            parts: Parts::default(),
        };
        parquet.go_to(at)?;
        Ok(parquet)
    }

    fn go_to(&mut self, at: Position) -> Result<(), FileError> {
        let groups = 0..at.offset;
        let before: Option<u64> = groups.map(|group| self.source.row_count(group)).sum();
        let skipped = before.and_then(|before| at.ordinal.checked_sub(before));
        let skipped = skipped
            .ok_or(io::ErrorKind::UnexpectedEof)
            .map_err(io::Error::from)?;
        self.begin_group(skipped)
    }

    /// Begins the row group of the position, after `skipped` of its rows.
    fn begin_group(&mut self, skipped: u64) -> Result<(), FileError> {
        self.group = None;
        let Some(count) = self.source.row_count(self.at.offset) else {
            return Ok(());
        };
        self.rows_left = count
            .checked_sub(skipped)
            .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        let batch_rows = self.source.batch_rows(self.index())?;
        self.read_by(ReadPlan {
            batch_rows,
            parts: 1,
        })
    }

    fn index(&self) -> usize {
        usize::try_from(self.at.offset).unwrap_or(usize::MAX)
    }

    /// Sets the plan for the rest of the row group.
    fn read_by(&mut self, plan: ReadPlan) -> Result<(), FileError> {
        let passes = self.group.as_ref().map_or(0, |group| group.passes);
        let all = 0..self.source.column_count();
        let reader = match plan.parts {
            1 => Some(self.reader(plan, all, self.rows_left)?),
            _ => None,
        };
        self.group = Some(CurrentGroup {
            plan,
            reader,
            passes,
        });
        Ok(())
    }

    /// Creates a reader of the next rows of some columns.
    fn reader(
        &self,
        plan: ReadPlan,
        columns: Range<usize>,
        rows: u64,
    ) -> Result<Reader, FileError> {
        let count = self.source.row_count(self.at.offset).unwrap_or_default();
        let start = count.saturating_sub(self.rows_left);
        self.source.reader(&ReadRequest {
            group: self.index(),
            columns,
            rows: start..start.saturating_add(rows),
            batch_rows: plan.batch_rows,
            other_bytes: self.parts.bytes(),
        })
    }

    /// Reads until a row is ready; returns false at the end of the file.
    fn fill(&mut self) -> Result<bool, FileError> {
        while !self.parts.has_line() && !guarded(|| self.rows.write())? {
            let Some(group) = &mut self.group else {
                return Ok(false);
            };
            let plan = group.plan;
            if self.rows_left == 0 {
                self.at.offset += 1;
                self.begin_group(0)?;
            } else if let Some(reader) = &mut group.reader {
                match reader.next() {
                    Ok(Some(batch)) => self.rows.take(batch),
                    Ok(None) => return Err(too_few_rows()),
                    Err(error) => {
                        let smaller = reader.smaller(plan, self.source.column_count());
                        self.read_by(smaller.ok_or(error)?)?;
                    }
                }
            } else {
                group.passes += 1;
                if group.passes > PASSES_MAX {
                    return Err(malformed(pages::TOO_MUCH));
                }
                self.read_parts(plan)?;
            }
        }
        Ok(true)
    }

    /// Reads all parts of as many rows as the lines may have bytes for; none if that exceeds the
    /// budget, with a smaller plan for the next call.
    fn read_parts(&mut self, plan: ReadPlan) -> Result<(), FileError> {
        let columns = self.source.column_count();
        let mut rows = self.rows_left.min(ROWS_MAX);
        self.parts.clear();
        for part in 0..plan.parts {
            let from = |part: usize| part * columns / plan.parts.max(1);
            let mut reader = self.reader(plan, from(part)..from(part + 1), rows)?;
            match read_lines(&mut reader, rows, LINES_BYTES_MAX / plan.parts as u64) {
                Ok(lines) => {
                    rows = lines.rows();
                    self.parts.push(lines);
                }
                Err(error) => {
                    self.parts.clear();
                    return self.read_by(reader.smaller(plan, columns).ok_or(error)?);
                }
            }
        }
        Ok(())
    }
}

/// Reads lines of a part until there are `rows`, or they have `bytes_max`.
fn read_lines(reader: &mut Reader, rows: u64, bytes_max: u64) -> Result<PartLines, FileError> {
    let mut lines = PartLines::default();
    while lines.rows() < rows {
        let batch = reader.next()?.ok_or_else(too_few_rows)?;
        if !guarded(|| lines.take(&batch, bytes_max))? {
            break;
        }
    }
    Ok(lines)
}

impl Framing for Parquet {
    fn next(&mut self) -> Result<Option<Record<'_>>, FileError> {
        if !self.fill()? {
            return Ok(None);
        }
        let at = self.at;
        self.at.ordinal += 1;
        self.at.line += 1;
        self.rows_left = self.rows_left.saturating_sub(1);
        let mut next = self.at;
        next.offset += u64::from(self.rows_left == 0);
        let (raw, is_too_long) = match self.parts.has_line() {
            true => self.parts.line(),
            false => self.rows.line(),
        };
        let error = is_too_long.then(|| {
            let message = format!(
                "The row is longer than {} MiB. Remove columns, or omit it.",
                rows::ROW_BYTES_MAX >> 20
            );
            RecordError::new("record_too_large", None, message)
        });
        Ok(Some(Record {
            at,
            next,
            raw,
            error,
        }))
    }
}

fn too_few_rows() -> FileError {
    malformed("a row group of it has fewer rows than it says")
}
