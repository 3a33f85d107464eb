//! Block headers and their checksums.

use crate::fields::u32_at;

/// Most bytes of rows in a block, as ClickHouse cuts them itself: a block stays in the cache of the
/// core that decompresses it.
pub const BLOCK_BYTES_MAX: usize = 1 << 20;

/// Bytes of a block's header: checksum, method and sizes.
pub const BLOCK_HEADER_BYTES: usize = CHECKSUM_BYTES + SIZES_BYTES;

pub(super) const CHECKSUM_BYTES: usize = 16;
/// Bytes of method and sizes.
pub(super) const SIZES_BYTES: usize = 9;
/// Most bytes that a checksum covers: LZ4 adds less than one in a hundred.
const COVERED_BYTES_MAX: usize = SIZES_BYTES + BLOCK_BYTES_MAX + BLOCK_BYTES_MAX / 100;
pub(super) const METHOD_LZ4: u8 = 0x82;
pub(super) const METHOD_NONE: u8 = 0x02;

/// Encodes a header without its checksum.
pub(super) fn header_of(
    method: u8,
    data_bytes: usize,
    uncompressed_bytes: usize,
) -> [u8; BLOCK_HEADER_BYTES] {
    let mut header = [0; BLOCK_HEADER_BYTES];
    // Both fit: a piece has at most 1 MiB, and LZ4 adds less than one in a hundred.
    let sizes = [data_bytes + SIZES_BYTES, uncompressed_bytes].map(|it| (it as u32).to_le_bytes());
    header[CHECKSUM_BYTES] = method;
    header[CHECKSUM_BYTES + 1..BLOCK_HEADER_BYTES].copy_from_slice(sizes.as_flattened());
    header
}

/// Writes a whole block's checksum.
pub(crate) fn seal(block: &mut [u8]) {
    if let Some((checksum, covered)) = block.split_at_mut_checked(CHECKSUM_BYTES) {
        checksum.copy_from_slice(&checksum_of(covered));
    }
}

/// Bytes of the block with this header; `None` if no block has such a header.
pub(crate) fn bytes_of(header: &[u8]) -> Option<u64> {
    let covered = u32_at(header, CHECKSUM_BYTES + 1)? as usize;
    (SIZES_BYTES..=COVERED_BYTES_MAX)
        .contains(&covered)
        .then_some((CHECKSUM_BYTES + covered) as u64)
}

/// Returns the header of one whole block whose checksum fits.
pub(crate) fn proven_header(block: &[u8]) -> Option<&[u8]> {
    let (checksum, covered) = block.split_at_checked(CHECKSUM_BYTES)?;
    (checksum == checksum_of(covered)).then(|| block.get(..BLOCK_HEADER_BYTES))?
}

/// CRC-32 over the headers of a run of blocks; `None` if it is no such run. Each header holds a
/// checksum over the rest of its block, so the CRC covers every byte and costs next to nothing.
pub(crate) fn headers_crc(mut run: &[u8]) -> Option<u32> {
    let mut hasher = crc32fast::Hasher::new();
    while !run.is_empty() {
        let (header, _) = run.split_at_checked(BLOCK_HEADER_BYTES)?;
        let bytes = usize::try_from(bytes_of(header)?).ok()?;
        hasher.update(header);
        run = run.split_at_checked(bytes)?.1;
    }
    Some(hasher.finalize())
}

/// CRC-32 over the headers of a run that was read back: `None` also if a checksum does not fit.
pub(crate) fn proven_headers_crc(mut run: &[u8]) -> Option<u32> {
    let mut hasher = crc32fast::Hasher::new();
    while !run.is_empty() {
        let bytes = usize::try_from(bytes_of(run.get(..BLOCK_HEADER_BYTES)?)?).ok()?;
        let (block, rest) = run.split_at_checked(bytes)?;
        hasher.update(proven_header(block)?);
        run = rest;
    }
    Some(hasher.finalize())
}

/// Checksum of a block. ClickHouse writes the two halves of the hash lower first; the crate returns
/// them as one number with the lower half on top.
pub(super) fn checksum_of(covered: &[u8]) -> [u8; CHECKSUM_BYTES] {
    cityhash_rs::cityhash_102_128(covered)
        .rotate_right(64)
        .to_le_bytes()
}
