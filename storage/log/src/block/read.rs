//! Decompresses a run of blocks into rows, checking every checksum.

use super::header::{CHECKSUM_BYTES, METHOD_LZ4, METHOD_NONE, SIZES_BYTES, checksum_of};
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
        let after = out.len() - first + block.uncompressed_bytes;
        if after > bytes_max {
            return Err(BlockError::TooLarge { bytes_max });
        }
        block.append_to(out)?;
        run = rest;
    }
    Ok(())
}

pub(super) struct Block<'a> {
    method: u8,
    data: &'a [u8],
    uncompressed_bytes: usize,
}

impl Block<'_> {
    pub(super) fn uncompressed_bytes(&self) -> usize {
        self.uncompressed_bytes
    }

    /// Appends the block's rows, or nothing if it contradicts itself.
    pub(super) fn append_to(&self, out: &mut Vec<u8>) -> Result<(), BlockError> {
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
            Some(space) => decompress_into(self.data, space).ok(),
            None => None,
        };
        if written == Some(self.uncompressed_bytes) {
            return Ok(());
        }
        out.truncate(start);
        Err(BlockError::Contents)
    }
}

pub(super) fn split_block(run: &[u8]) -> Result<(Block<'_>, &[u8]), BlockError> {
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
