//! gzip and deflate, by libdeflate.
//!
//! libdeflate inflates a whole member in one call into a buffer that must be large enough, at
//! about twice zlib's speed. The buffer's first size is what the gzip trailer says, capped by
//! what the input could plausibly hold; when that was too small, the next try is eight times as
//! large, up to the limit.

use crate::decoder::{DecodeError, LARGE_BYTES, lengthen};
use crate::keys::has_zlib_header;
use libdeflater::{Crc, DecompressionError, Decompressor};
use memchr::memmem;

/// Bytes of the smallest gzip member: header, an empty block, trailer.
const MEMBER_BYTES_MIN: usize = 18;
/// What a gzip member begins with: its mark, and deflate, the only method there is.
const MEMBER_START: &[u8] = &[0x1f, 0x8b, 0x08];
/// First guess of how many times larger JSON gets: typical batches are 12 to 14 to 1, and a
/// guess that is too small costs a second pass.
const RATIO_GUESS: usize = 20;

/// A decompressor, reused.
pub struct Inflater(Decompressor);

/// Which call of libdeflate to make.
#[derive(Clone, Copy)]
enum Wrapper {
    Gzip,
    Zlib,
    Bare,
}

impl Default for Inflater {
    fn default() -> Self {
        Self(Decompressor::new())
    }
}

impl Inflater {
    /// One or several gzip members, one after the other.
    pub fn gzip(
        &mut self,
        body: &[u8],
        out: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<(), DecodeError> {
        let mut rest = body;
        let mut filled = 0;
        loop {
            let hint = match rest.last_chunk::<4>() {
                Some(size) if rest.len() >= MEMBER_BYTES_MIN => u32::from_le_bytes(*size) as usize,
                _ => return Err(DecodeError::broken("The gzip body is cut short.")),
            };
            // One byte more than said tells an honest trailer from a lie without another try.
            let said = hint.saturating_add(1);
            let hints = [said.min(rest.len().saturating_mul(RATIO_GUESS)), said];
            let start = filled;
            filled += self.inflate(Wrapper::Gzip, rest, out, start, hints, bytes_max)?;
            let member = out.get(start..filled).unwrap_or_default();
            match after_member(rest, member) {
                [] => break,
                more => rest = more,
            }
        }
        out.truncate(filled);
        Ok(())
    }

    /// zlib when the first two bytes say so, else bare deflate.
    pub fn deflate(
        &mut self,
        body: &[u8],
        out: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<(), DecodeError> {
        let hints = [body.len().saturating_mul(RATIO_GUESS), 0];
        if has_zlib_header(body) {
            match self.inflate(Wrapper::Zlib, body, out, 0, hints, bytes_max) {
                // It was none.
                Err(DecodeError::Broken(_)) => {}
                done => return done.map(|written| out.truncate(written)),
            }
        }
        let written = self.inflate(Wrapper::Bare, body, out, 0, hints, bytes_max)?;
        out.truncate(written);
        Ok(())
    }

    /// Writes what `input` inflates to into `out` from `start` on; returns how many bytes. The first two rooms that are
    /// tried are given. `out` is
    /// grown as needed, to `bytes_max` at most, and never cut: what was filled with zeros once need
    /// not be again, of which a body of a million empty members would make a bomb.
    fn inflate(
        &mut self,
        wrapper: Wrapper,
        input: &[u8],
        out: &mut Vec<u8>,
        start: usize,
        [first, mut second]: [usize; 2],
        bytes_max: usize,
    ) -> Result<usize, DecodeError> {
        let room_max = bytes_max.saturating_sub(start);
        let mut room = first.max(256).min(room_max);
        loop {
            if out.len() < start + room {
                lengthen(out, start, start + room, bytes_max);
            }
            let target = out.get_mut(start..).unwrap_or_default();
            room = target.len();
            let result = match wrapper {
                Wrapper::Gzip => self.0.gzip_decompress(input, target),
                Wrapper::Zlib => self.0.zlib_decompress(input, target),
                Wrapper::Bare => self.0.deflate_decompress(input, target),
            };
            match result {
                Ok(written) => return Ok(written),
                Err(DecompressionError::BadData) => {
                    return Err(DecodeError::broken(
                        "The body is not valid gzip or deflate data, or is cut short.",
                    ));
                }
                Err(DecompressionError::InsufficientSpace) => {
                    let larger = next_try(room, room_max).ok_or(DecodeError::TooLarge)?;
                    let said = std::mem::take(&mut second).min(room_max);
                    room = if said > room { said } else { larger };
                }
            }
        }
    }
}

/// The room to try when so much was not enough; nothing at the limit. All is inflated again, so tries are few; and
/// what is not needed is filled with zeros, so they are not too large.
fn next_try(room: usize, room_max: usize) -> Option<usize> {
    let next = match room {
        LARGE_BYTES.. => room_max,
        _ => room.saturating_mul(8).max(64 << 10).min(room_max),
    };
    (room < room_max).then_some(next)
}

/// What follows the gzip member that `rest` begins with and that inflated to `member`.
///
/// libdeflate's binding does not say how much it read, so the member's end is found by its
/// trailer: checksum and size. Bodies of one member, which is nearly all, are known by the size
/// at their very end and the absence of another member's first bytes, without a checksum.
fn after_member<'a>(rest: &'a [u8], member: &[u8]) -> &'a [u8] {
    let size = u32::try_from(member.len() & 0xffff_ffff)
        .unwrap_or(u32::MAX)
        .to_le_bytes();
    let later = rest.get(MEMBER_BYTES_MIN..).unwrap_or_default();
    if rest.ends_with(&size) && memmem::find(later, MEMBER_START).is_none() {
        return &[];
    }
    let mut crc = Crc::new();
    crc.update(member);
    let mut trailer = [0; 8];
    trailer[..4].copy_from_slice(&crc.sum().to_le_bytes());
    trailer[4..].copy_from_slice(&size);
    rest.get(end_of_member(rest, &trailer)..)
        .unwrap_or_default()
}

/// Where the member that `rest` begins with ends: behind its trailer. The trailer's bytes may occur
/// before it, too, as the zeros of an empty member do; behind it is another member, or nothing.
#[cold]
fn end_of_member(rest: &[u8], trailer: &[u8]) -> usize {
    let finder = memmem::Finder::new(trailer);
    let mut from = MEMBER_BYTES_MIN - trailer.len() - 2;
    let mut first = None;
    while let Some(at) = rest.get(from..).and_then(|later| finder.find(later)) {
        let end = from + at + trailer.len();
        first = first.or(Some(end));
        let behind = rest.get(end..).unwrap_or_default();
        if behind.is_empty() || behind.starts_with(MEMBER_START) {
            return end;
        }
        from += at + 1;
    }
    first.unwrap_or(rest.len())
}
