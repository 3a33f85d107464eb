//! Readers of a row group: of all its columns, or of some.

use super::budget::Budget;
use super::columns::Columns;
use super::{guarded, malformed, pages};
use crate::FileError;
use arrow_array::RecordBatch;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection, RowSelector};
use parquet::file::metadata::ParquetMetaData;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

/// About how much of a row group is in memory as rows.
const BATCH_BYTES: u64 = 4 << 20;
/// Rows of a batch, at most.
pub(super) const BATCH_ROWS_MAX: u64 = 4_096;
/// Of how many rows fewer a batch is tried again that took too much memory.
const BATCH_STEP: u64 = 16;
/// Bytes of a value of any column in memory, beside those of texts.
const VALUE_BYTES: u64 = 20;
/// Bytes of a row in columns of a fixed size.
const FIXED_BYTES_MAX: u64 = 64 << 20;

/// A file, and what is known of it.
pub(super) struct Source {
    file: Arc<File>,
    metadata: Arc<ParquetMetaData>,
    columns: Columns,
}

/// Which rows of which columns are read, and how.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    /// The row group.
    pub(super) group: usize,
    /// Of the columns at the top.
    pub(super) columns: Range<usize>,
    /// Rows that are passed over, and those that are read.
    pub(super) rows: Range<u64>,
    pub(super) batch_rows: u64,
    /// Bytes that are in memory beside these columns.
    pub(super) other_bytes: u64,
}

/// How a row group is read, so that it takes no more memory than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) batch_rows: u64,
    /// How many parts its columns are read in, one after the other.
    pub(super) parts: usize,
}

/// Batches of rows.
pub(super) struct Reader {
    batches: ParquetRecordBatchReader,
    budget: Arc<Budget>,
}

// === impl Source ===

impl Source {
    pub(super) fn new(file: File, metadata: ParquetMetaData) -> Result<Self, FileError> {
        let columns = guarded(|| Columns::of(metadata.file_metadata().schema_descr()))?;
        Ok(Self {
            file: Arc::new(file),
            metadata: Arc::new(metadata),
            columns,
        })
    }

    /// Columns at the top.
    pub(super) fn column_count(&self) -> usize {
        self.columns.count()
    }

    /// Rows of a row group; none past the last.
    pub(super) fn row_count(&self, group: u64) -> Option<u64> {
        let group = usize::try_from(group).ok()?;
        let group = self.metadata.row_groups().get(group)?;
        Some(group.num_rows().try_into().unwrap_or_default())
    }

    /// Rows of a batch of a row group.
    pub(super) fn batch_rows(&self, index: usize) -> Result<u64, FileError> {
        let group = self.metadata.row_groups().get(index);
        let (bytes, count) = group.map_or((0, 0), |group| {
            let count = u64::try_from(group.num_rows()).unwrap_or_default();
            (group.total_byte_size().unsigned_abs(), count)
        });
        let leaves = self.columns.leaves(&self.metadata, index);
        let leaves = leaves.filter(|leaves| !leaves.is_empty());
        let leaves = leaves.ok_or_else(|| malformed("it has no columns"))?;
        let fixed_bytes: u64 = leaves.iter().map(|leaf| leaf.width + VALUE_BYTES).sum();
        if fixed_bytes > FIXED_BYTES_MAX {
            return Err(malformed(format!(
                "a row has {} MiB in columns of a fixed size. Take out columns",
                fixed_bytes >> 20
            )));
        }
        let row_bytes = (bytes / count.max(1)).saturating_add(fixed_bytes);
        Ok((BATCH_BYTES / row_bytes.max(1)).clamp(1, BATCH_ROWS_MAX))
    }

    pub(super) fn reader(&self, reading: &Reading) -> Result<Reader, FileError> {
        let leaves = self.columns.leaves(&self.metadata, reading.group);
        let leaves = leaves.unwrap_or_default();
        let budget = Arc::new(Budget::new(leaves.len(), reading.other_bytes));
        let group = pages::Group {
            file: Arc::clone(&self.file),
            metadata: Arc::clone(&self.metadata),
            index: reading.group,
            leaves,
            batch_rows: reading.batch_rows,
            budget: Arc::clone(&budget),
        };
        let schema = self.metadata.file_metadata().schema_descr();
        let levels = guarded(|| self.columns.levels(schema, reading.columns.clone()))?;
        let batches = guarded(|| {
            ParquetRecordBatchReader::try_new_with_row_groups(
                &levels,
                &group,
                count(reading.batch_rows.max(1)),
                self.selection(reading),
            )
        })?;
        Ok(Reader { batches, budget })
    }

    /// The rows that are read, where they are not all.
    fn selection(&self, reading: &Reading) -> Option<RowSelection> {
        let Range { start, end } = reading.rows;
        let all = self.row_count(reading.group as u64).unwrap_or_default();
        let parts = vec![
            RowSelector::skip(count(start)),
            RowSelector::select(count(end.saturating_sub(start))),
        ];
        (reading.rows != (0..all)).then(|| parts.into())
    }
}

fn count(rows: u64) -> usize {
    usize::try_from(rows).unwrap_or(usize::MAX)
}

// === impl Reader ===

impl Reader {
    /// The next rows, of which the last ones are not needed any more; nothing at the end.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, FileError> {
        self.budget.begin_batch();
        guarded(|| self.batches.next().transpose())
    }

    /// A way that takes less memory, where the last batch took too much; nothing if it was something else, or there is none.
    pub(super) fn smaller(&self, way: Way, columns: usize) -> Option<Way> {
        if !self.budget.is_exceeded() {
            return None;
        }
        let has_fewer_rows = way.batch_rows > 1;
        let has_fewer_columns = way.parts < columns;
        if has_fewer_columns && (self.budget.is_held() || !has_fewer_rows) {
            let parts = way.parts.saturating_mul(2).min(columns);
            return Some(Way { parts, ..way });
        }
        has_fewer_rows.then(|| Way {
            batch_rows: (way.batch_rows / BATCH_STEP).max(1),
            ..way
        })
    }
}
