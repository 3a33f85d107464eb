//! Parquet: rows as JSON objects by the names of columns, read by row group and within one by pages.
//!
//! The description of such a file is at its end, so what cannot be sought in is copied to a temporary file first.
//!
//! A file of some bytes can claim to hold any amount of rows, columns, and values, and pages unpack to thousands of times
//! their size. So nothing is believed before it was looked at; the library decodes only what fits into bounds:
//!
//! | Module | Bounds |
//! |---|---|
//! | `footer` | the description of the file, with `thrift`, the protocol that it is in |
//! | `page` | pages, before they are unpacked |
//! | `values` | what is in them, before it is decoded |
//! | `budget` | what the pages of all columns, and what is made of them for a batch, take at once |
//! | `json` | rows, before they are written |
//!
//! With them a file takes at most 512 MiB, whatever is in it, and far less usually. A row that is too long is a fault of its own;
//! a page or a row that would take more makes the file one that cannot be read on. `columns` says what columns are
//! read as, `pages` hands pages to the library, `rows` makes lines of what comes out.

mod budget;
mod columns;
mod footer;
mod json;
mod page;
mod pages;
mod rows;
mod thrift;
mod values;

use crate::{FileError, Framing, Input, Position, Record, RecordError};
use columns::Columns;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::file::metadata::ParquetStatisticsPolicy;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader};
use rows::Rows;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Seek};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// About how much of a row group is in memory as rows.
const BATCH_BYTES: u64 = 4 << 20;
const BATCH_ROWS_MAX: u64 = 4_096;
/// Of how many rows fewer a batch is tried again that took too much memory.
const BATCH_STEP: u64 = 16;
/// Bytes of a value of any column in memory, beside those of texts.
const VALUE_BYTES: u64 = 20;
/// Letters of a reason.
const WHY_CHARS_MAX: usize = 300;
/// Bytes of a row in columns of a fixed size.
const FIXED_BYTES_MAX: u64 = 64 << 20;

/// The rows of a file.
pub struct Parquet {
    file: Arc<File>,
    metadata: Arc<ParquetMetaData>,
    columns: Columns,
    at: Position,
    /// Rows of the row group that are still to come, those in `rows` included.
    rows_left: u64,
    group: Option<Group>,
    rows: Rows,
}

/// The row group that is being read.
struct Group {
    batches: ParquetRecordBatchReader,
    budget: Arc<budget::Budget>,
    batch_rows: u64,
}

impl Parquet {
    /// From a position on.
    ///
    /// # Errors
    /// When the file cannot be read, is no Parquet, claims more than is read, or ends before the position.
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
        let columns = guarded(|| Columns::of(metadata.file_metadata().schema_descr()))?;
        let mut parquet = Self {
            file: Arc::new(file),
            metadata: Arc::new(metadata),
            columns,
            at,
            rows_left: 0,
            group: None,
            rows: Rows::default(),
        };
        parquet.go_to(at)?;
        Ok(parquet)
    }

    /// Rows of a row group; none past the last.
    fn row_count(&self, group: u64) -> Option<u64> {
        let group = usize::try_from(group).ok()?;
        let group = self.metadata.row_groups().get(group)?;
        Some(group.num_rows().try_into().unwrap_or_default())
    }

    fn go_to(&mut self, at: Position) -> Result<(), FileError> {
        let before: Option<u64> = (0..at.offset).map(|group| self.row_count(group)).sum();
        let skipped = before.and_then(|before| at.ordinal.checked_sub(before));
        let skipped = skipped
            .ok_or(io::ErrorKind::UnexpectedEof)
            .map_err(io::Error::from)?;
        self.open_group(skipped, BATCH_ROWS_MAX)
    }

    /// Opens the row group that the position names, behind so many of its rows.
    fn open_group(&mut self, skipped: u64, batch_rows_max: u64) -> Result<(), FileError> {
        self.group = None;
        let Some(count) = self.row_count(self.at.offset) else {
            return Ok(());
        };
        self.rows_left = count
            .checked_sub(skipped)
            .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        let index = usize::try_from(self.at.offset).unwrap_or_default();
        let leaves = self.columns.leaves(&self.metadata, index);
        let leaves = leaves.filter(|leaves| !leaves.is_empty());
        let leaves = leaves.ok_or_else(|| malformed("it has no columns"))?;
        let bytes = self
            .metadata
            .row_groups()
            .get(index)
            .map_or(0, |group| group.total_byte_size());
        let fixed_bytes: u64 = leaves.iter().map(|leaf| leaf.width + VALUE_BYTES).sum();
        if fixed_bytes > FIXED_BYTES_MAX {
            return Err(malformed(format!(
                "a row has {} MiB in columns of a fixed size. Take out columns",
                fixed_bytes >> 20
            )));
        }
        let row_bytes = (bytes.unsigned_abs() / count.max(1)).saturating_add(fixed_bytes);
        let batch_rows = (BATCH_BYTES / row_bytes.max(1)).clamp(1, batch_rows_max.max(1));
        let budget = Arc::new(budget::Budget::new(leaves.len()));
        let group = pages::Group {
            file: Arc::clone(&self.file),
            metadata: Arc::clone(&self.metadata),
            index,
            leaves,
            batch_rows,
            budget: Arc::clone(&budget),
        };
        let batches = guarded(|| {
            ParquetRecordBatchReader::try_new_with_row_groups(
                &self.columns.levels,
                &group,
                usize::try_from(batch_rows).unwrap_or(1),
                selection(skipped, self.rows_left),
            )
        })?;
        self.group = Some(Group {
            batches,
            budget,
            batch_rows,
        });
        Ok(())
    }

    /// Reads on until there is a row to hand out; false at the end of the file.
    fn fill(&mut self) -> Result<bool, FileError> {
        while !guarded(|| self.rows.write())? {
            let Some(group) = &mut self.group else {
                return Ok(false);
            };
            group.budget.begin_batch();
            match guarded(|| group.batches.next().transpose()) {
                Ok(Some(batch)) => self.rows.take(batch),
                Ok(None) if self.rows_left > 0 => {
                    return Err(FileError::Malformed {
                        offset: self.at.offset,
                        message: "A row group has fewer rows than the file says.".to_owned(),
                    });
                }
                Ok(None) => {
                    self.at.offset += 1;
                    self.open_group(0, BATCH_ROWS_MAX)?;
                }
                Err(error) if group.batch_rows == 1 || !group.budget.is_exceeded() => {
                    return Err(error);
                }
                Err(_) => {
                    let fewer = group.batch_rows / BATCH_STEP;
                    let count = self.row_count(self.at.offset).unwrap_or_default();
                    self.open_group(count.saturating_sub(self.rows_left), fewer)?;
                }
            }
        }
        Ok(true)
    }
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
        let (raw, is_too_long) = self.rows.line();
        let fault = is_too_long.then(|| {
            let message = format!(
                "The row is longer than {} MiB. Take out columns, or leave it out.",
                rows::ROW_BYTES_MAX >> 20
            );
            RecordError::new("record_too_large", None, message)
        });
        Ok(Some(Record {
            at,
            next,
            raw,
            fault,
        }))
    }
}

/// All rows but the first ones.
fn selection(skipped: u64, left: u64) -> Option<RowSelection> {
    let rows = |count| usize::try_from(count).unwrap_or(usize::MAX);
    let parts = [
        RowSelector::skip(rows(skipped)),
        RowSelector::select(rows(left)),
    ];
    (skipped > 0).then(|| parts.to_vec().into())
}

/// The reason may name columns, however long their names are.
fn malformed(why: impl Display) -> FileError {
    let why = why.to_string();
    let why = why.trim_start_matches("Parquet argument error: ");
    let why = why.trim_start_matches("Parquet error: ");
    let why: String = why.chars().take(WHY_CHARS_MAX).collect();
    FileError::Malformed {
        offset: 0,
        message: format!("The file is no Parquet that can be read: {why}."),
    }
}

/// The library checks less of a damaged file than it should, and panics; that is the file's fault, and no reason for
/// others not to be read.
fn guarded<T, E: Display>(read: impl FnOnce() -> Result<T, E>) -> Result<T, FileError> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(malformed(error)),
        Err(_) => Err(malformed("it is damaged")),
    }
}
