//! Packs rows into ClickHouse blocks.
//!
//! Large groups are compressed on the core that parsed them, so that the work spreads over the
//! cores and goes on while the commit thread waits for the disk. Small ones travel as rows and
//! are joined by the commit thread, as blocks of a few rows compress badly.

use millrace_blocks::Compressor;
use millrace_log::SectionHeader;
use millrace_rows::RowGroup;

/// Bytes from which on a group is compressed by the caller. A smaller block of its own would cost
/// more in headers and compression ratio than it saves the commit thread.
const OWN_BLOCK_BYTES_MIN: usize = 64 * 1024;
/// Keys kept per group and per section. A block is stored as a whole or not at all, so one key
/// would do, were it not for merges that fold a resent row into its later copy.
pub const SAMPLE_KEYS_MAX: usize = 4;

/// One row group as it is handed to the commit thread.
#[derive(Debug)]
pub enum PackedGroup {
    /// A large group: a section of its own, compressed.
    Blocks {
        /// Header of the section in the log.
        header: SectionHeader,
        /// ClickHouse blocks.
        blocks: Vec<u8>,
    },
    /// A small group: rows to be joined with others of their table and month.
    Rows(RowGroup),
}

impl PackedGroup {
    /// Number of rows.
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

/// Returns the section header of a row group.
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

/// Compressor of row groups; one per core, since it keeps tables and buffers.
pub struct Packer {
    compressor: Compressor,
    free: Vec<Vec<u8>>,
    /// Bytes that the free buffers hold.
    free_bytes: usize,
}

/// Buffers kept for reuse; any more go back to the allocator.
const FREE_BUFFERS_MAX: usize = 64;
/// Largest buffer that is kept: one that a giant request needed is not.
const FREE_BUFFER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes that the free buffers hold together, at most. Each grows to the largest group that it was
/// ever used for, so without this limit every core comes to hold 256 MiB.
const FREE_BYTES_MAX: usize = 16 * 1024 * 1024;

impl Packer {
    /// A packer without buffers.
    pub fn new() -> Self {
        Self {
            compressor: Compressor::new(),
            free: Vec::new(),
            free_bytes: 0,
        }
    }

    /// Packs a group for the commit thread. A row buffer that is no longer needed goes to `spent`.
    pub fn pack(&mut self, group: RowGroup, spent: &mut Vec<Vec<u8>>) -> PackedGroup {
        if group.bytes.len() < OWN_BLOCK_BYTES_MIN {
            return PackedGroup::Rows(group);
        }
        let header = section_header(&group);
        let mut blocks = self.free.pop().unwrap_or_default();
        self.free_bytes -= blocks.capacity();
        blocks.clear();
        self.compressor.compress_into(&group.bytes, &mut blocks);
        spent.push(group.bytes);
        PackedGroup::Blocks { header, blocks }
    }

    /// Takes a buffer back once the commit thread is done with it.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        if self.free.len() < FREE_BUFFERS_MAX
            && bytes <= FREE_BUFFER_BYTES_MAX
            && self.free_bytes + bytes <= FREE_BYTES_MAX
        {
            self.free_bytes += bytes;
            self.free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_blocks::decompress_into_vec;
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
    fn packed_rows_unpack_to_the_same_bytes_with_reused_buffers() {
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

    /// Regression: 256 MiB stayed with each core.
    #[test]
    fn free_buffers_hold_16_mib_together() {
        let mut packer = Packer::new();
        let mut spent = Vec::new();
        for _ in 0..2 {
            for _ in 0..FREE_BUFFERS_MAX {
                packer.recycle(Vec::with_capacity(FREE_BUFFER_BYTES_MAX));
            }
            let held: usize = packer.free.iter().map(Vec::capacity).sum();
            assert_eq!((held, packer.free_bytes), (FREE_BYTES_MAX, FREE_BYTES_MAX));
            // A buffer in use makes room for another one.
            packer.pack(group(vec![0; OWN_BLOCK_BYTES_MIN]), &mut spent);
            assert_eq!(packer.free_bytes, FREE_BYTES_MAX - FREE_BUFFER_BYTES_MAX);
        }
    }
}
