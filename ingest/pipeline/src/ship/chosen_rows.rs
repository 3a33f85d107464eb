//! Rows of a batch that are chosen by their keys, as those that shards lack.

use super::insert_batch::InsertBatch;
use super::row_keys::KeyedRow;
use super::row_lookup::MissingRows;
use super::rows::Layout;
use super::source::{read, unpacked};
use millrace_log::{FrameSection, LogHandle, ReadError};
use std::collections::HashSet;

/// Rows of a batch that were chosen by their keys.
#[derive(Debug, Default)]
pub struct ChosenRows {
    pub bytes: Vec<u8>,
    /// Rows in `bytes`.
    pub rows: Vec<KeyedRow>,
    /// Other rows of the sections that have one of their keys.
    pub others: Vec<KeyedRow>,
}

/// Reads the rows of a batch that are missing; `None` if one of them is not found, since rows are
/// damaged or cannot be told apart. Blocks.
///
/// # Errors
/// If the disk fails.
pub fn rows_with(
    log: &LogHandle,
    batch: &InsertBatch<FrameSection>,
    missing: &MissingRows,
) -> Result<Option<ChosenRows>, ReadError> {
    let Some(layout) = Layout::of(&batch.key.insert_target) else {
        return Ok(None);
    };
    let (mut chosen, mut found) = (ChosenRows::default(), HashSet::new());
    let keys = missing.keys();
    for section in &batch.sections {
        let blocks = match read(log, std::slice::from_ref(section)) {
            Err(ReadError::Corrupt { .. }) => return Ok(None),
            blocks => blocks?,
        };
        let Ok(bytes) = unpacked(&blocks) else {
            return Ok(None);
        };
        let Ok(rows) = layout.rows(&bytes) else {
            return Ok(None);
        };
        for (place, row) in rows.iter().enumerate() {
            let is_of_batch = batch.range.is_none_or(|range| range.contains(place));
            let Some(keyed) = row.keyed().filter(|row| keys.contains(&row.key)) else {
                continue;
            };
            match missing.get(keyed.placed()).filter(|_| is_of_batch) {
                Some(told) => {
                    found.insert(told);
                    let bytes = bytes.get(row.bytes.clone()).unwrap_or_default();
                    chosen.bytes.extend_from_slice(bytes);
                    chosen.rows.push(keyed);
                }
                None => chosen.others.push(keyed),
            }
        }
    }
    Ok((found.len() == missing.len()).then_some(chosen))
}
