//! ClickHouse's compressed blocks, so that what lies in the log is what an insert sends.
//!
//! A block, as `decompress=1` reads it, integers little-endian:
//!
//! | bytes | field |
//! |---|---|
//! | 16 | CityHash128 (the 1.0.2 variant ClickHouse froze) of all that follows, lower half first |
//! | 1 | method, `0x82` for LZ4, `0x02` for data as it is |
//! | 4 | bytes of method, sizes and data |
//! | 4 | bytes of the data once decompressed |
//! | … | one raw LZ4 block, or the data |

use crate::fields::u32_at;
use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};

/// Rows are cut into blocks of at most this many bytes, as ClickHouse does itself: a block stays
/// in the cache of whoever decompresses it.
pub const BLOCK_BYTES_MAX: usize = 1 << 20;

/// Bytes of a block before its data.
pub const HEAD_BYTES: usize = CHECKSUM_BYTES + SIZES_BYTES;

const CHECKSUM_BYTES: usize = 16;
/// Method and sizes.
const SIZES_BYTES: usize = 9;
/// What a checksum covers at most: LZ4 adds less than one in a hundred.
const COVERED_BYTES_MAX: usize = SIZES_BYTES + BLOCK_BYTES_MAX + BLOCK_BYTES_MAX / 100;
const METHOD_LZ4: u8 = 0x82;
const METHOD_NONE: u8 = 0x02;

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

/// A head without its checksum.
fn head_of(method: u8, data_bytes: usize, uncompressed_bytes: usize) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    // Both fit: a piece has at most 1 MiB, and LZ4 adds less than one in a hundred.
    let sizes = [data_bytes + SIZES_BYTES, uncompressed_bytes].map(|it| (it as u32).to_le_bytes());
    head[CHECKSUM_BYTES] = method;
    head[CHECKSUM_BYTES + 1..HEAD_BYTES].copy_from_slice(sizes.as_flattened());
    head
}

/// Writes a whole block's checksum.
pub(crate) fn seal(block: &mut [u8]) {
    if let Some((checksum, covered)) = block.split_at_mut_checked(CHECKSUM_BYTES) {
        checksum.copy_from_slice(&checksum_of(covered));
    }
}

/// Why bytes are not a run of blocks.
#[derive(thiserror::Error, Copy, Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BlockError {
    /// The run ends inside a block.
    #[error("a compressed block is cut short")]
    Short,
    /// The checksum does not fit.
    #[error("the checksum of a compressed block does not fit")]
    Checksum,
    /// Neither LZ4 nor the data as it is.
    #[error("compression method {0:#04x} is neither LZ4 nor none")]
    Method(u8),
    /// The sizes or the LZ4 data contradict each other.
    #[error("a compressed block contradicts itself")]
    Contents,
    /// The run holds more than the caller allows.
    #[error("more than {bytes_max} bytes after decompression")]
    TooLarge {
        /// The caller's limit.
        bytes_max: usize,
    },
}

/// Appends what a run of blocks holds to `out`, at most `bytes_max` bytes, after checking every
/// checksum.
///
/// # Errors
///
/// See [`BlockError`]; `out` then ends with the last sound block.
pub fn decompress_into_vec(
    mut run: &[u8],
    out: &mut Vec<u8>,
    bytes_max: usize,
) -> Result<(), BlockError> {
    let first = out.len();
    while !run.is_empty() {
        let (block, rest) = split_block(run)?;
        let after = out.len() - first + block.uncompressed_bytes;
        if after > bytes_max {
            return Err(BlockError::TooLarge { bytes_max });
        }
        block.append_to(out)?;
        run = rest;
    }
    Ok(())
}

struct Block<'a> {
    method: u8,
    data: &'a [u8],
    uncompressed_bytes: usize,
}

impl Block<'_> {
    /// Appends what the block holds, or nothing if it contradicts itself.
    fn append_to(&self, out: &mut Vec<u8>) -> Result<(), BlockError> {
        let start = out.len();
        if self.method == METHOD_NONE {
            out.extend_from_slice(self.data);
            return if self.data.len() == self.uncompressed_bytes {
                Ok(())
            } else {
                out.truncate(start);
                Err(BlockError::Contents)
            };
        }
        out.resize(start + self.uncompressed_bytes, 0);
        let written = match out.get_mut(start..) {
            Some(room) => decompress_into(self.data, room).ok(),
            None => None,
        };
        if written == Some(self.uncompressed_bytes) {
            return Ok(());
        }
        out.truncate(start);
        Err(BlockError::Contents)
    }
}

fn split_block(run: &[u8]) -> Result<(Block<'_>, &[u8]), BlockError> {
    let (checksum, rest) = run
        .split_at_checked(CHECKSUM_BYTES)
        .ok_or(BlockError::Short)?;
    let &[method, s0, s1, s2, s3, u0, u1, u2, u3, ..] = rest else {
        return Err(BlockError::Short);
    };
    let size = u32::from_le_bytes([s0, s1, s2, s3]) as usize;
    let (covered, rest) = rest.split_at_checked(size).ok_or(BlockError::Short)?;
    let data = covered.get(SIZES_BYTES..).ok_or(BlockError::Contents)?;
    if checksum != checksum_of(covered) {
        return Err(BlockError::Checksum);
    }
    if method != METHOD_LZ4 && method != METHOD_NONE {
        return Err(BlockError::Method(method));
    }
    let uncompressed_bytes = u32::from_le_bytes([u0, u1, u2, u3]) as usize;
    Ok((
        Block {
            method,
            data,
            uncompressed_bytes,
        },
        rest,
    ))
}

/// CRC-32 over the heads of a run of blocks; `None` if it is no such run. As each head holds a
/// checksum over the rest of its block, it stands for every byte, and costs next to nothing.
pub(crate) fn heads_crc(mut run: &[u8]) -> Option<u32> {
    let mut hasher = crc32fast::Hasher::new();
    while !run.is_empty() {
        let (head, _) = run.split_at_checked(HEAD_BYTES)?;
        let bytes = usize::try_from(bytes_of(head)?).ok()?;
        hasher.update(head);
        run = run.split_at_checked(bytes)?.1;
    }
    Some(hasher.finalize())
}

/// The same for a run that was read back: `None` also if a checksum does not fit.
pub(crate) fn proven_heads_crc(mut run: &[u8]) -> Option<u32> {
    let mut hasher = crc32fast::Hasher::new();
    while !run.is_empty() {
        let bytes = usize::try_from(bytes_of(run.get(..HEAD_BYTES)?)?).ok()?;
        let (block, rest) = run.split_at_checked(bytes)?;
        hasher.update(proven_head(block)?);
        run = rest;
    }
    Some(hasher.finalize())
}

/// Bytes of the block with this head; `None` if no block has it.
pub(crate) fn bytes_of(head: &[u8]) -> Option<u64> {
    let covered = u32_at(head, CHECKSUM_BYTES + 1)? as usize;
    (SIZES_BYTES..=COVERED_BYTES_MAX)
        .contains(&covered)
        .then_some((CHECKSUM_BYTES + covered) as u64)
}

/// The head of one whole block whose checksum fits.
pub(crate) fn proven_head(block: &[u8]) -> Option<&[u8]> {
    let (checksum, covered) = block.split_at_checked(CHECKSUM_BYTES)?;
    (checksum == checksum_of(covered)).then(|| block.get(..HEAD_BYTES))?
}

/// ClickHouse writes the two halves of the hash lower first; the crate returns them as one number
/// with the lower half on top.
fn checksum_of(covered: &[u8]) -> [u8; CHECKSUM_BYTES] {
    cityhash_rs::cityhash_102_128(covered)
        .rotate_right(64)
        .to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compressed(rows: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Compressor::new().compress_into(rows, &mut out);
        out
    }

    #[test]
    fn rows_are_stored_where_they_lie_as_they_are_elsewhere() {
        for bytes in [1, 1_000, BLOCK_BYTES_MAX] {
            let mut stored = Vec::new();
            store_into(&vec![7; bytes], &mut stored);
            let mut block = vec![7; HEAD_BYTES + bytes];
            assert!(store_in_place(&mut block));
            assert!(block == stored, "{bytes} bytes");
        }
        for bytes in [
            0,
            HEAD_BYTES - 1,
            HEAD_BYTES,
            HEAD_BYTES + BLOCK_BYTES_MAX + 1,
        ] {
            let mut block = vec![7; bytes];
            assert!(!store_in_place(&mut block), "{bytes} bytes");
            assert!(block.iter().all(|byte| *byte == 7));
        }
    }

    #[test]
    fn blocks_are_the_bytes_clickhouse_reads() {
        // As in the clickhouse crate's own tests.
        let source = [
            245u8, 5, 222, 235, 225, 158, 59, 108, 225, 31, 65, 215, 66, 66, 36, 92, 130, 34, 0, 0,
            0, 23, 0, 0, 0, 240, 8, 1, 0, 2, 255, 255, 255, 255, 0, 1, 1, 1, 115, 6, 83, 116, 114,
            105, 110, 103, 3, 97, 98, 99,
        ];
        let plain = [
            1u8, 0, 2, 255, 255, 255, 255, 0, 1, 1, 1, 115, 6, 83, 116, 114, 105, 110, 103, 3, 97,
            98, 99,
        ];
        let mut out = Vec::new();
        decompress_into_vec(&source, &mut out, 23).unwrap();
        assert_eq!(out, plain);
        assert_eq!(compressed(&plain), source);
    }

    #[test]
    fn large_input_is_cut_into_blocks_that_read_back() {
        let mut compressor = Compressor::new();
        for bytes in [
            0,
            1,
            15,
            1000,
            BLOCK_BYTES_MAX,
            BLOCK_BYTES_MAX + 1,
            3 << 20,
        ] {
            let rows: Vec<u8> = (0..bytes).map(|i| ((i * i) >> 7) as u8).collect();
            let mut run = vec![9];
            compressor.compress_into(&rows, &mut run);
            let mut blocks = 0;
            let mut rest = &run[1..];
            while !rest.is_empty() {
                rest = split_block(rest).unwrap().1;
                blocks += 1;
            }
            assert_eq!(blocks, bytes.div_ceil(BLOCK_BYTES_MAX));
            let mut back = Vec::new();
            decompress_into_vec(&run[1..], &mut back, bytes).unwrap();
            assert!(back == rows, "{bytes} bytes read back");
            if bytes > 0 {
                let small = decompress_into_vec(&run[1..], &mut Vec::new(), bytes - 1);
                assert!(matches!(small, Err(BlockError::TooLarge { .. })));
            }
        }
    }

    #[test]
    fn stored_blocks_read_back_beside_compressed_ones() {
        for bytes in [0, 1, BLOCK_BYTES_MAX, BLOCK_BYTES_MAX + 1] {
            let rows: Vec<u8> = (0..bytes).map(|i| (i >> 3) as u8).collect();
            let mut run = compressed(b"before");
            store_into(&rows, &mut run);
            let mut back = Vec::new();
            decompress_into_vec(&run, &mut back, bytes + 6).unwrap();
            assert!(
                back.starts_with(b"before") && back[6..] == rows,
                "{bytes} bytes read back"
            );
        }
    }

    #[test]
    fn the_sum_of_heads_stands_for_every_byte() {
        let mut run = compressed(b"an event, an event, an event");
        store_into(b"another event", &mut run);
        let sum = heads_crc(&run);
        assert!(sum.is_some() && proven_heads_crc(&run) == sum);
        for bit in 0..run.len() * 8 {
            let mut bad = run.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(proven_heads_crc(&bad), sum, "bit {bit}");
        }
        let swapped = [&run[run.len() - 38..], &run[..run.len() - 38]].concat();
        assert_ne!(proven_heads_crc(&swapped), sum, "another order");
    }

    #[test]
    fn every_flipped_bit_and_every_cut_shows() {
        let text = b"an event, an event, an event, and another event";
        let mut stored = Vec::new();
        store_into(text, &mut stored);
        for run in [compressed(text), stored] {
            for bit in 0..run.len() * 8 {
                let mut bad = run.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(decompress_into_vec(&bad, &mut Vec::new(), 1 << 20).is_err());
            }
            for cut in 1..run.len() {
                assert!(decompress_into_vec(&run[..cut], &mut Vec::new(), 1 << 20).is_err());
            }
        }
    }
}
