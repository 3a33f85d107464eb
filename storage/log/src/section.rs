//! What a frame is made of: runs of ClickHouse blocks and what is said of them.

use crate::Position;

/// What a section says of its rows. The log stores it and does not interpret it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SectionHeader {
    /// Table and column list the rows were encoded for: `events(uuid,event,…)`. At most 65 535
    /// bytes.
    pub insert_target: String,
    /// The one month all rows belong to, as `YYYYMM`.
    pub month: u32,
    /// Rows in the blocks.
    pub rows: u32,
    /// Bytes of the rows before compression.
    pub uncompressed_bytes: u64,
    /// A sample of row keys, by which the rows can be found again. At most 65 535.
    pub keys: Vec<[u8; 24]>,
}

/// One section to append.
#[derive(Copy, Clone, Debug)]
pub struct Section<'a> {
    /// What is said of the rows.
    pub header: &'a SectionHeader,
    /// A run of ClickHouse compressed blocks, as [`block`](crate::block) makes them: nothing else
    /// is taken, as their own checksums are what proves them later.
    pub blocks: &'a [u8],
}

/// One frame as read back: one commit group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Where it starts.
    pub position: Position,
    /// Where it ends; a reader from here goes on behind it.
    pub end: Position,
    /// Rises by one from frame to frame, except behind a cut or damage.
    pub sequence: u64,
    /// Its sections, in the order they were appended.
    pub sections: Vec<FrameSection>,
}

/// One section as read back. Its blocks stay on disk until
/// [`Reader::read_blocks`](crate::Reader::read_blocks).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrameSection {
    /// What is said of the rows.
    pub header: SectionHeader,
    /// Bytes of the blocks.
    pub blocks_bytes: u64,
    /// Where the blocks start.
    pub(crate) blocks_at: Position,
    /// Proves them.
    pub(crate) blocks_sum: BlocksSum,
}

/// What proves a section's blocks.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum BlocksSum {
    /// Frames of version 1: CRC-32 over every byte.
    Bytes(u32),
    /// CRC-32 over the heads of the blocks, whose own checksums cover the rest.
    Heads(u32),
}
