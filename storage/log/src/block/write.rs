//! Rows become a run of blocks, compressed or as they are.

use super::head::{BLOCK_BYTES_MAX, HEAD_BYTES, METHOD_LZ4, METHOD_NONE, head_of, seal};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

/// What a compressor keeps between calls, so that the steady state does not allocate.
pub struct Compressor {
    table: CompressTable,
    /// Room for the worst case of one block. Compressing here and copying the little that comes
    /// out is cheaper than zeroing the worst case at the end of the output each time.
    scratch: Vec<u8>,
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

impl Default for Compressor {
    fn default() -> Self {
        Self::new()
    }
}

impl Compressor {
    /// A compressor for blocks of any size.
    #[must_use]
    pub fn new() -> Self {
        Self {
            table: CompressTable::large(),
            scratch: vec![0; get_maximum_output_size(BLOCK_BYTES_MAX)],
        }
    }

    /// Appends `rows` to `out` as a run of blocks of at most [`BLOCK_BYTES_MAX`] uncompressed
    /// bytes each; nothing for no rows.
    pub fn compress_into(&mut self, rows: &[u8], out: &mut Vec<u8>) {
        for piece in rows.chunks(BLOCK_BYTES_MAX) {
            self.compress_block(piece, out);
        }
    }

    fn compress_block(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        // It fails only for want of room, and there is room for the worst case.
        let compressed =
            compress_into_with_table(piece, &mut self.scratch, &mut self.table).unwrap_or(0);
        let data = self.scratch.get(..compressed).unwrap_or_default();
        put_block(METHOD_LZ4, data, piece.len(), out);
    }
}

/// Appends `rows` to `out` as a run of blocks that hold them as they are: some four times the
/// bytes of [`Compressor::compress_into`] for a twentieth of its work.
pub fn store_into(rows: &[u8], out: &mut Vec<u8>) {
    for piece in rows.chunks(BLOCK_BYTES_MAX) {
        put_block(METHOD_NONE, piece, piece.len(), out);
    }
}

/// The same without moving the rows: they lie in `block` behind [`HEAD_BYTES`] of room, where the
/// head is written. `false` if there are none, or more than a block may have; then nothing was done.
#[must_use]
pub fn store_in_place(block: &mut [u8]) -> bool {
    let Some((head, data)) = block.split_first_chunk_mut::<HEAD_BYTES>() else {
        return false;
    };
    if data.is_empty() || data.len() > BLOCK_BYTES_MAX {
        return false;
    }
    *head = head_of(METHOD_NONE, data.len(), data.len());
    seal(block);
    true
}

fn put_block(method: u8, data: &[u8], uncompressed_bytes: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&head_of(method, data.len(), uncompressed_bytes));
    out.extend_from_slice(data);
    seal(out.get_mut(start..).unwrap_or_default());
}
