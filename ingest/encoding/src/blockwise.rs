//! gzip and deflate a block at a time, by zlib-rs.
//!
//! It takes a quarter more time than libdeflate, but can be stopped: by the limit of the output,
//! without a second try, and by the number of [`Blocks`].

use crate::blocks::Blocks;
use crate::decode_error::DecodeError;
use crate::growth::{grown, lengthen};
use libdeflater::{adler32, crc32};
use zlib_rs::{Inflate, InflateFlush, Status};

/// Bytes of the fixed part of a gzip member's head, of its trailer, and of zlib's head.
const GZIP_HEAD_BYTES: usize = 10;
const GZIP_TRAILER_BYTES: usize = 8;
const ZLIB_HEAD_BYTES: usize = 2;
/// Bits of the flags in a gzip member's head.
const FLAG_CHECKSUM: u8 = 1 << 1;
const FLAG_EXTRA: u8 = 1 << 2;
const FLAG_NAME: u8 = 1 << 3;
const FLAG_COMMENT: u8 = 1 << 4;
const FLAGS_RESERVED: u8 = 0xe0;
/// Bits of the window that deflate has.
const WINDOW_BITS: u8 = 15;

/// Inflater, reused.
pub struct Blockwise(Inflate);

/// Output of one body, which may have several members.
pub struct Output<'a> {
    /// Buffer, grown as needed and never cut; bytes behind [`filled`](Self::filled) are undefined.
    pub out: &'a mut Vec<u8>,
    pub filled: usize,
    pub bytes_max: usize,
    pub blocks: &'a mut Blocks,
}

impl Default for Blockwise {
    fn default() -> Self {
        Self(Inflate::new(false, WINDOW_BITS))
    }
}

impl Blockwise {
    /// Inflates a gzip member; returns the bytes behind it.
    pub fn gzip<'a>(
        &mut self,
        member: &'a [u8],
        output: &mut Output<'_>,
    ) -> Result<&'a [u8], DecodeError> {
        let start = output.filled;
        let rest = self.bare(behind_gzip_head(member).ok_or_else(broken)?, output)?;
        let (trailer, rest) = rest
            .split_first_chunk::<GZIP_TRAILER_BYTES>()
            .ok_or_else(broken)?;
        let decoded = output.out.get(start..output.filled).unwrap_or_default();
        if *trailer != gzip_trailer(decoded) {
            return Err(broken());
        }
        Ok(rest)
    }

    /// Inflates deflate between zlib's head and checksum; ignores the bytes behind.
    pub fn zlib(&mut self, body: &[u8], output: &mut Output<'_>) -> Result<(), DecodeError> {
        let inner = body.get(ZLIB_HEAD_BYTES..).ok_or_else(broken)?;
        let rest = self.bare(inner, output)?;
        let decoded = output.out.get(..output.filled).unwrap_or_default();
        if rest.first_chunk() != Some(&adler32(decoded).to_be_bytes()) {
            return Err(broken());
        }
        Ok(())
    }

    /// Inflates bare deflate; returns the bytes behind it.
    pub fn bare<'a>(
        &mut self,
        body: &'a [u8],
        output: &mut Output<'_>,
    ) -> Result<&'a [u8], DecodeError> {
        self.0.reset(false);
        let mut rest = body;
        loop {
            let Output { out, filled, .. } = output;
            if *filled == out.len() {
                // One byte past the limit is asked for, to tell "just fits" from "too large".
                let limit = output.bytes_max.saturating_add(1);
                let len = grown(out.len(), limit).ok_or(DecodeError::TooLarge)?;
                lengthen(out, *filled, len, output.bytes_max);
            }
            let space = out.get_mut(*filled..).unwrap_or_default();
            let before = (self.0.total_in(), self.0.total_out());
            let status = self.0.decompress(rest, space, InflateFlush::Block);
            let status = status.map_err(|_| broken())?;
            let read = bytes(self.0.total_in() - before.0);
            let written = bytes(self.0.total_out() - before.1);
            rest = rest.get(read..).unwrap_or_default();
            output.filled += written;
            if output.filled > output.bytes_max {
                return Err(DecodeError::TooLarge);
            }
            output.blocks.count(output.filled)?;
            match status {
                Status::StreamEnd => return Ok(rest),
                // There was space, so it wants more input than there is.
                _ if read == 0 && written == 0 => return Err(broken()),
                Status::Ok | Status::BufError => {}
            }
        }
    }
}

/// Trailer of a member that inflates to `decoded`: checksum and size.
pub fn gzip_trailer(decoded: &[u8]) -> [u8; GZIP_TRAILER_BYTES] {
    let size = u32::try_from(decoded.len() & 0xffff_ffff).unwrap_or(u32::MAX);
    let mut trailer = [0; GZIP_TRAILER_BYTES];
    trailer[..4].copy_from_slice(&crc32(decoded).to_le_bytes());
    trailer[4..].copy_from_slice(&size.to_le_bytes());
    trailer
}

/// Bytes behind the head of the gzip member that begins here; `None` if it is not valid.
fn behind_gzip_head(member: &[u8]) -> Option<&[u8]> {
    let (head, mut rest) = member.split_first_chunk::<GZIP_HEAD_BYTES>()?;
    let [0x1f, 0x8b, 0x08, flags, ..] = *head else {
        return None;
    };
    if flags & FLAGS_RESERVED != 0 {
        return None;
    }
    if flags & FLAG_EXTRA != 0 {
        let (len, behind) = rest.split_first_chunk()?;
        rest = behind.get(usize::from(u16::from_le_bytes(*len))..)?;
    }
    for flag in [FLAG_NAME, FLAG_COMMENT] {
        if flags & flag != 0 {
            rest = rest.get(memchr::memchr(0, rest)? + 1..)?;
        }
    }
    if flags & FLAG_CHECKSUM != 0 {
        rest = rest.get(2..)?;
    }
    Some(rest)
}

/// Converts a count of bytes of a slice.
fn bytes(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn broken() -> DecodeError {
    DecodeError::broken("The body is not valid gzip or deflate data, or is cut short.")
}
