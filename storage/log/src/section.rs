//! Sections of a frame: runs of ClickHouse blocks and their headers.

use crate::Position;

/// Header of a section, which describes its rows. The log stores it and does not interpret it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SectionHeader {
    /// Table and column list the rows were encoded for: `events(uuid,event,…)`. At most 65 535
    /// bytes.
    pub insert_target: String,
    /// Month of all rows, as `YYYYMM`.
    pub month: u32,
    /// Number of rows in the blocks.
    pub rows: u32,
    /// Bytes of the rows before compression.
    pub uncompressed_bytes: u64,
    /// A sample of row keys, by which the rows can be found again. At most 65 535.
    pub keys: Vec<[u8; 24]>,
}

/// One section to append.
#[derive(Copy, Clone, Debug)]
pub struct Section<'a> {
    /// Header of the section.
    pub header: &'a SectionHeader,
    /// Run of ClickHouse compressed blocks, as [`millrace_blocks`] makes them: nothing else is
    /// accepted, since their own checksums prove them later.
    pub blocks: &'a [u8],
}

/// One frame as read back: one commit group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Start of the frame.
    pub position: Position,
    /// End of the frame; a reader from here goes on behind it.
    pub end: Position,
    /// Sequence of the frame; rises by one from frame to frame, except behind a cut or damage.
    pub sequence: u64,
    /// Sections of the frame, in the order they were appended.
    pub sections: Vec<FrameSection>,
}

/// One section as read back. Its blocks stay on disk until
/// [`Reader::read_blocks`](crate::Reader::read_blocks).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrameSection {
    /// Header of the section.
    pub header: SectionHeader,
    /// Bytes of the blocks.
    pub blocks_bytes: u64,
    /// Start of the blocks.
    pub(crate) blocks_at: Position,
    /// CRC-32 over the headers of the blocks, whose own checksums cover the rest.
    pub(crate) block_headers_crc: u32,
}
