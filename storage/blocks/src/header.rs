//! Block headers and their checksums.

/// Most bytes of rows in a block, as ClickHouse cuts them itself: a block stays in the cache of the
/// core that decompresses it.
pub(crate) const BLOCK_BYTES_MAX: usize = 1 << 20;

/// Bytes of a block's header: checksum, method and sizes.
pub const BLOCK_HEADER_BYTES: usize = CHECKSUM_BYTES + SIZES_BYTES;

pub(crate) const CHECKSUM_BYTES: usize = 16;
/// Bytes of method and sizes.
pub(crate) const SIZES_BYTES: usize = 9;
/// Most bytes that a checksum covers: LZ4 adds less than one in a hundred.
const COVERED_BYTES_MAX: usize = SIZES_BYTES + BLOCK_BYTES_MAX + BLOCK_BYTES_MAX / 100;
pub(crate) const METHOD_LZ4: u8 = 0x82;
pub(crate) const METHOD_NONE: u8 = 0x02;

/// Header of a block as it was read, whatever it says.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct BlockHeader {
    /// Method of compression.
    pub(crate) method: u8,
    /// Bytes that the checksum covers: method, sizes and data.
    pub covered_bytes: usize,
    /// Bytes of the data once decompressed.
    pub uncompressed_bytes: usize,
}

impl BlockHeader {
    /// Decodes a header; its checksum is left to [`split_block`](crate::split_block).
    #[inline]
    #[must_use]
    pub fn decode(header: &[u8; BLOCK_HEADER_BYTES]) -> Self {
        let [.., method, c0, c1, c2, c3, u0, u1, u2, u3] = *header;
        Self {
            method,
            covered_bytes: u32::from_le_bytes([c0, c1, c2, c3]) as usize,
            uncompressed_bytes: u32::from_le_bytes([u0, u1, u2, u3]) as usize,
        }
    }

    /// Bytes of the data; `None` if method and sizes alone are more than the header counts.
    #[must_use]
    pub fn data_bytes(&self) -> Option<usize> {
        self.covered_bytes.checked_sub(SIZES_BYTES)
    }
}

/// Encodes a header without its checksum.
#[inline]
pub(crate) fn header_of(
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
#[inline]
pub fn seal(block: &mut [u8]) {
    if let Some((checksum, covered)) = block.split_at_mut_checked(CHECKSUM_BYTES) {
        checksum.copy_from_slice(&checksum_of(covered));
    }
}

/// Bytes of the block with this header; `None` if [`Compressor`](crate::Compressor) writes no block
/// with such a header.
#[inline]
#[must_use]
pub fn bytes_of(header: &[u8]) -> Option<u64> {
    let covered = BlockHeader::decode(header.first_chunk()?).covered_bytes;
    (SIZES_BYTES..=COVERED_BYTES_MAX)
        .contains(&covered)
        .then_some((CHECKSUM_BYTES + covered) as u64)
}

/// Returns the header of one whole block whose checksum fits.
#[inline]
#[must_use]
pub fn proven_header(block: &[u8]) -> Option<&[u8]> {
    let (checksum, covered) = block.split_at_checked(CHECKSUM_BYTES)?;
    (checksum == checksum_of(covered)).then(|| block.get(..BLOCK_HEADER_BYTES))?
}

/// Checksum of a block. ClickHouse writes the two halves of the hash lower first; the crate returns
/// them as one number with the lower half on top.
#[inline]
pub(crate) fn checksum_of(covered: &[u8]) -> [u8; CHECKSUM_BYTES] {
    cityhash_rs::cityhash_102_128(covered)
        .rotate_right(64)
        .to_le_bytes()
}
