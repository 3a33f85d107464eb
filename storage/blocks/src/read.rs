//! Decompresses a run of blocks into rows, checking every checksum.

use crate::header::{
    BlockHeader, CHECKSUM_BYTES, METHOD_LZ4, METHOD_NONE, SIZES_BYTES, checksum_of,
};
use lz4_flex::block::decompress_into;

/// Error of bytes that are not a run of blocks.
#[derive(thiserror::Error, Copy, Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BlockError {
    /// The run ends inside a block.
    #[error("a compressed block is cut short")]
    Short,
    /// The checksum does not fit.
    #[error("the checksum of a compressed block does not fit")]
    Checksum,
    /// The method is neither LZ4 nor none.
    #[error("compression method {0:#04x} is neither LZ4 nor none")]
    Method(u8),
    /// The sizes or the LZ4 data contradict each other.
    #[error("a compressed block contradicts itself")]
    Contents,
    /// The run holds more than the caller allows.
    #[error("more than {bytes_max} bytes after decompression")]
    TooLarge {
        /// Limit that the caller gave.
        bytes_max: usize,
    },
}

/// Decompresses a run of blocks and appends the rows to `out`, at most `bytes_max` bytes, after
/// checking every checksum.
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
        let after = out.len() - first + block.uncompressed_bytes();
        if after > bytes_max {
            return Err(BlockError::TooLarge { bytes_max });
        }
        block.append_to(out)?;
        run = rest;
    }
    Ok(())
}

/// Block whose checksum fits.
#[derive(Debug)]
pub struct Block<'a> {
    header: BlockHeader,
    data: &'a [u8],
}

impl Block<'_> {
    /// Bytes of the block's rows, by its header.
    #[must_use]
    pub fn uncompressed_bytes(&self) -> usize {
        self.header.uncompressed_bytes
    }

    /// Writes the block's rows to `out`, which has as many bytes as they.
    ///
    /// # Errors
    ///
    /// [`BlockError::Contents`] if the block contradicts itself; `out` then may have any bytes.
    pub fn decompress_to(&self, out: &mut [u8]) -> Result<(), BlockError> {
        let written = match self.header.method {
            METHOD_NONE if self.data.len() == out.len() => {
                out.copy_from_slice(self.data);
                Some(out.len())
            }
            METHOD_NONE => None,
            _ => decompress_into(self.data, out).ok(),
        };
        if written == Some(self.header.uncompressed_bytes) {
            Ok(())
        } else {
            Err(BlockError::Contents)
        }
    }

    /// Appends the block's rows, or nothing if it contradicts itself.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) -> Result<(), BlockError> {
        let start = out.len();
        out.resize(start + self.header.uncompressed_bytes, 0);
        let written = self.decompress_to(out.get_mut(start..).unwrap_or_default());
        if written.is_err() {
            out.truncate(start);
        }
        written
    }
}

/// Splits the first block off a run, after checking its checksum.
///
/// # Errors
///
/// See [`BlockError`].
pub fn split_block(run: &[u8]) -> Result<(Block<'_>, &[u8]), BlockError> {
    let header = BlockHeader::decode(run.first_chunk().ok_or(BlockError::Short)?);
    let (checksum, rest) = run
        .split_at_checked(CHECKSUM_BYTES)
        .ok_or(BlockError::Short)?;
    let (covered, rest) = rest
        .split_at_checked(header.covered_bytes)
        .ok_or(BlockError::Short)?;
    let data = covered.get(SIZES_BYTES..).ok_or(BlockError::Contents)?;
    if checksum != checksum_of(covered) {
        return Err(BlockError::Checksum);
    }
    if ![METHOD_LZ4, METHOD_NONE].contains(&header.method) {
        return Err(BlockError::Method(header.method));
    }
    Ok((Block { header, data }, rest))
}
