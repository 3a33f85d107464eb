//! Rows into ClickHouse blocks.
//!
//! Large groups are compressed on the core that parsed them, so that the work spreads over the
//! cores and goes on while the commit thread waits for the disk. Small ones travel as rows and
//! are joined by the commit thread, as blocks of a few rows compress badly.

use millrace_log::SectionHeader;
use millrace_log::block::Compressor;
use millrace_rows::RowGroup;

/// Groups of at least so many bytes are compressed by the caller. Below it a block of its own
/// would cost more in headers and in ratio than the join saves.
const OWN_BLOCK_BYTES_MIN: usize = 64 * 1024;
/// Keys kept per group and per section: a block is stored as a whole or not at all, so one would
/// do, were it not for merges that fold a resent row into its later copy.
pub const SAMPLE_KEYS_MAX: usize = 4;

/// One group on its way to the commit thread.
#[derive(Debug)]
pub enum PackedGroup {
    /// A section of its own.
    Blocks {
        /// What the log says of it.
        header: SectionHeader,
        /// ClickHouse blocks.
        blocks: Vec<u8>,
    },
    /// Rows to be joined with others of their table and month.
    Rows(RowGroup),
}

impl PackedGroup {
    /// How many rows.
    pub fn rows(&self) -> u64 {
        match self {
            Self::Blocks { header, .. } => u64::from(header.rows),
            Self::Rows(group) => u64::from(group.rows),
        }
    }

    /// Bytes of the rows before compression.
    pub fn uncompressed_bytes(&self) -> u64 {
        match self {
            Self::Blocks { header, .. } => header.uncompressed_bytes,
            Self::Rows(group) => group.bytes.len() as u64,
        }
    }
}

/// What a section says of a group.
pub fn section_header(group: &RowGroup) -> SectionHeader {
    SectionHeader {
        insert_target: group.table.insert_target().to_owned(),
        month: group.month.0,
        rows: group.rows,
        uncompressed_bytes: group.bytes.len() as u64,
        keys: group
            .keys
            .iter()
            .take(SAMPLE_KEYS_MAX)
            .map(|key| key.to_bytes())
            .collect(),
    }
}

/// Compresses groups; one per core, as it keeps its tables and buffers.
pub struct Packer {
    compressor: Compressor,
    free: Vec<Vec<u8>>,
}

/// Buffers kept for reuse; more than that is given back to the allocator.
const FREE_BUFFERS_MAX: usize = 64;
/// A buffer that a giant request blew up is not kept.
const FREE_BUFFER_BYTES_MAX: usize = 4 * 1024 * 1024;

impl Packer {
    /// A packer without buffers.
    pub fn new() -> Self {
        Self {
            compressor: Compressor::new(),
            free: Vec::new(),
        }
    }

    /// Makes the group ready to travel. A row buffer that is no longer needed goes to `spent`.
    pub fn pack(&mut self, group: RowGroup, spent: &mut Vec<Vec<u8>>) -> PackedGroup {
        if group.bytes.len() < OWN_BLOCK_BYTES_MIN {
            return PackedGroup::Rows(group);
        }
        let header = section_header(&group);
        let mut blocks = self.free.pop().unwrap_or_default();
        blocks.clear();
        self.compressor.compress_into(&group.bytes, &mut blocks);
        spent.push(group.bytes);
        PackedGroup::Blocks { header, blocks }
    }

    /// Takes a buffer back once the commit thread is done with it.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        if self.free.len() < FREE_BUFFERS_MAX && buffer.capacity() <= FREE_BUFFER_BYTES_MAX {
            self.free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_log::block::decompress_into_vec;
    use millrace_rows::{Micros, Month, RowKey, Table};
    use uuid::Uuid;

    fn group(bytes: Vec<u8>) -> RowGroup {
        let key = RowKey {
            id: Uuid::nil(),
            received_at: Micros(0),
            index: None,
        };
        RowGroup {
            table: Table::Events,
            month: Month(202_611),
            rows: 1,
            bytes,
            keys: vec![key],
        }
    }

    #[test]
    fn rows_come_back_however_many_and_whoever_had_their_buffers_before() {
        let mut packer = Packer::new();
        let mut spent: Vec<Vec<u8>> = Vec::new();
        for round in 0..40_u8 {
            let lengths = [OWN_BLOCK_BYTES_MIN, 7, 1 << 20, OWN_BLOCK_BYTES_MIN + 1];
            let rows = vec![round; lengths[usize::from(round % 4)]];
            let mut bytes = spent.pop().unwrap_or_default();
            bytes.clone_from(&rows);
            let packed = packer.pack(group(bytes), &mut spent);
            assert_eq!(packed.uncompressed_bytes(), rows.len() as u64);
            match packed {
                PackedGroup::Blocks { blocks, .. } => {
                    let mut read = Vec::new();
                    decompress_into_vec(&blocks, &mut read, 2 << 20).unwrap();
                    assert!(read == rows, "round {round}");
                    packer.recycle(blocks);
                }
                PackedGroup::Rows(group) => {
                    assert!(rows.len() < OWN_BLOCK_BYTES_MIN && group.bytes == rows);
                    spent.push(group.bytes);
                }
            }
        }
    }
}
