//! Native blocks of rows, as the shipper makes them of a batch.

use crate::hot_path::Parsing;
use crate::requests::Workload;
use anyhow::{Context, Result};
use millrace_native::NativeBlock;
use millrace_rows::Table;
use std::hint::black_box;

/// Parses the requests of a workload into rows of events, as they are in the log.
///
/// # Errors
/// The body was refused, or has no events.
pub fn shipped_rows(workload: Workload) -> Result<Vec<u8>> {
    let groups = Parsing::of(workload.body(false)).rows()?;
    let mut groups = groups.into_iter();
    let group = groups.find(|group| group.table == Table::Events);
    Ok(group.context("the body has no events")?.bytes)
}

/// Makes a block of rows and all of its pieces, and returns their bytes.
///
/// # Errors
/// The rows are refused.
pub fn write_block(rows: &[u8]) -> Result<usize> {
    let block = NativeBlock::of(Table::Events.insert_target(), black_box(rows))?;
    let pieces = (0..).map_while(|nth| block.piece(nth));
    Ok(pieces.map(|piece| black_box(piece).len()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::SHIPPED;

    #[test]
    fn the_rows_of_a_batch_have_different_keys() {
        let rows = shipped_rows(SHIPPED).unwrap();
        let target = Table::Events.insert_target();
        let block = NativeBlock::of(target, rows.as_slice()).unwrap();
        assert_eq!(block.rows(), SHIPPED.events);
        assert!(!block.has_equal_keys());
        assert_eq!(write_block(&rows).unwrap() as u64, block.len_bytes());
    }
}
