//! What stands before a block's data, and the sums over it.

use crate::fields::u32_at;

/// Rows are cut into blocks of at most this many bytes, as ClickHouse does itself: a block stays
/// in the cache of whoever decompresses it.
pub const BLOCK_BYTES_MAX: usize = 1 << 20;

/// Bytes of a block before its data.
pub const HEAD_BYTES: usize = CHECKSUM_BYTES + SIZES_BYTES;

pub(super) const CHECKSUM_BYTES: usize = 16;
/// Method and sizes.
pub(super) const SIZES_BYTES: usize = 9;
/// What a checksum covers at most: LZ4 adds less than one in a hundred.
const COVERED_BYTES_MAX: usize = SIZES_BYTES + BLOCK_BYTES_MAX + BLOCK_BYTES_MAX / 100;
pub(super) const METHOD_LZ4: u8 = 0x82;
pub(super) const METHOD_NONE: u8 = 0x02;

/// A head without its checksum.
pub(super) fn head_of(
    method: u8,
    data_bytes: usize,
    uncompressed_bytes: usize,
) -> [u8; HEAD_BYTES] {
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

/// ClickHouse writes the two halves of the hash lower first; the crate returns them as one number
/// with the lower half on top.
pub(super) fn checksum_of(covered: &[u8]) -> [u8; CHECKSUM_BYTES] {
    cityhash_rs::cityhash_102_128(covered)
        .rotate_right(64)
        .to_le_bytes()
}
