//! Readers of a row group's columns: of all, or of some.

use super::budget::Budget;
use super::columns::Columns;
use super::failure::{guarded, malformed};
use super::pages;
use crate::FileError;
use arrow_array::RecordBatch;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection, RowSelector};
use parquet::file::metadata::ParquetMetaData;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

/// Approximate bytes of a batch of rows.
const BATCH_BYTES: u64 = 4 << 20;
/// Most rows of a batch.
pub(super) const BATCH_ROWS_MAX: u64 = 4_096;
/// Factor by which a batch shrinks that exceeded the budget.
const BATCH_STEP: u64 = 16;
/// Bytes of a value of any column in memory, without those of texts.
const VALUE_BYTES: u64 = 20;
/// Most bytes of a row in columns of a fixed size.
const FIXED_BYTES_MAX: u64 = 64 << 20;

/// A file with its metadata.
pub(super) struct ParquetSource {
    file: Arc<File>,
    metadata: Arc<ParquetMetaData>,
    columns: Columns,
}

/// Rows and columns to read.
#[derive(Clone, Debug)]
pub(super) struct ReadRequest {
    /// Index of the row group.
    pub(super) group: usize,
    /// Top-level columns to read.
    pub(super) columns: Range<usize>,
    /// Rows to read; those before are skipped.
    pub(super) rows: Range<u64>,
    pub(super) batch_rows: u64,
    /// Bytes in memory besides these columns.
    pub(super) other_bytes: u64,
}

/// Plan to read a row group within the memory budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadPlan {
    pub(super) batch_rows: u64,
    /// Number of parts that the columns are read in, one after the other.
    pub(super) parts: usize,
}

/// Reads batches of rows.
pub(super) struct Reader {
    batches: ParquetRecordBatchReader,
    budget: Arc<Budget>,
}

// === impl ParquetSource ===

impl ParquetSource {
    pub(super) fn new(file: File, metadata: ParquetMetaData) -> Result<Self, FileError> {
        let columns = guarded(|| Columns::of(metadata.file_metadata().schema_descr()))?;
        Ok(Self {
            file: Arc::new(file),
            metadata: Arc::new(metadata),
            columns,
        })
    }

    /// Number of top-level columns.
    pub(super) fn column_count(&self) -> usize {
        self.columns.count()
    }

    /// Number of rows of a row group; `None` after the last.
    pub(super) fn row_count(&self, group: u64) -> Option<u64> {
        let group = usize::try_from(group).ok()?;
        let group = self.metadata.row_groups().get(group)?;
        Some(group.num_rows().try_into().unwrap_or_default())
    }

    /// Number of rows for a batch of a row group.
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
                "a row has {} MiB in columns of a fixed size. Remove columns",
                fixed_bytes >> 20
            )));
        }
        let row_bytes = (bytes / count.max(1)).saturating_add(fixed_bytes);
        Ok((BATCH_BYTES / row_bytes.max(1)).clamp(1, BATCH_ROWS_MAX))
    }

    pub(super) fn reader(&self, request: &ReadRequest) -> Result<Reader, FileError> {
        let leaves = self.columns.leaves(&self.metadata, request.group);
        let leaves = leaves.unwrap_or_default();
        let budget = Arc::new(Budget::new(leaves.len(), request.other_bytes));
        let group = pages::CheckedRowGroup {
            file: Arc::clone(&self.file),
            metadata: Arc::clone(&self.metadata),
            index: request.group,
            leaves,
            batch_rows: request.batch_rows,
            budget: Arc::clone(&budget),
        };
        let schema = self.metadata.file_metadata().schema_descr();
        let levels = guarded(|| self.columns.levels(schema, request.columns.clone()))?;
        let batches = guarded(|| {
            ParquetRecordBatchReader::try_new_with_row_groups(
                &levels,
                &group,
                count(request.batch_rows.max(1)),
                self.selection(request),
            )
        })?;
        Ok(Reader { batches, budget })
    }

    /// Selection of the rows to read; `None` if these are all.
    fn selection(&self, request: &ReadRequest) -> Option<RowSelection> {
        let Range { start, end } = request.rows;
        let all = self.row_count(request.group as u64).unwrap_or_default();
        let parts = vec![
            RowSelector::skip(count(start)),
            RowSelector::select(count(end.saturating_sub(start))),
        ];
        (request.rows != (0..all)).then(|| parts.into())
    }
}

fn count(rows: u64) -> usize {
    usize::try_from(rows).unwrap_or(usize::MAX)
}

// === impl Reader ===

impl Reader {
    /// Reads the next batch; `None` at the end. The last batch must be dropped before.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, FileError> {
        self.budget.begin_batch();
        guarded(|| self.batches.next().transpose())
    }

    /// Plan that takes less memory, if the last batch exceeded the budget; `None` if it failed for
    /// another reason, or there is no smaller plan.
    pub(super) fn smaller(&self, plan: ReadPlan, columns: usize) -> Option<ReadPlan> {
        if !self.budget.is_exceeded() {
            return None;
        }
        let has_fewer_rows = plan.batch_rows > 1;
        let has_fewer_columns = plan.parts < columns;
        if has_fewer_columns && (self.budget.is_held() || !has_fewer_rows) {
            let parts = plan.parts.saturating_mul(2).min(columns);
            return Some(ReadPlan { parts, ..plan });
        }
        has_fewer_rows.then(|| ReadPlan {
            batch_rows: (plan.batch_rows / BATCH_STEP).max(1),
            ..plan
        })
    }
}
