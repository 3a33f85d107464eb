//! Sources of the rows of the model's batches.

use super::server::RowId;
use crate::ship::insert_batch::InsertBatch;
use bytes::Bytes;
use millrace_clickhouse::{Body, InsertError, InsertOutcome};

/// Payload of a batch, which may be damaged in the log.
pub(super) struct Source {
    pub(super) rows: Bytes,
    pub(super) is_damaged: bool,
}

impl Body for Source {
    fn len_bytes(&self) -> u64 {
        self.rows.len() as u64
    }

    async fn piece(&self, index: usize) -> Result<Option<Vec<Bytes>>, InsertError> {
        if self.is_damaged {
            return Err(InsertError {
                outcome: InsertOutcome::Lost,
                code: None,
                message: "damaged".to_owned(),
            });
        }
        Ok((index == 0).then(|| vec![self.rows.clone()]))
    }
}

/// Returns the rows of a batch.
pub(super) fn rows_of(batch: &InsertBatch<Vec<RowId>>) -> Vec<RowId> {
    let sections = batch.sections.iter();
    let all: Vec<RowId> = sections.flat_map(|it| it.source.iter().copied()).collect();
    match batch.range {
        Some(range) => all[range.from as usize..range.to as usize].to_vec(),
        None => all,
    }
}

/// Returns the other rows of a cut section.
pub(super) fn rows_beside(batch: &InsertBatch<Vec<RowId>>) -> Vec<RowId> {
    let taken = rows_of(batch);
    let sections = batch.sections.iter();
    let all = sections.flat_map(|it| it.source.iter().copied());
    all.filter(|row| !taken.contains(row)).collect()
}
