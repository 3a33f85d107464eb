//! gzip and deflate, by libdeflate.
//!
//! libdeflate inflates a whole member in one call into a buffer that must be large enough, at
//! about twice zlib's speed. The buffer's first size is what the gzip trailer says, capped by
//! what the input could plausibly hold; when that was too small, the next try is four times as
//! large, up to the limit.

use super::{DecodeError, grown};
use libdeflater::{Crc, DecompressionError, Decompressor};

/// Bytes of the smallest gzip member: header, an empty block, trailer.
const MEMBER_BYTES_MIN: usize = 18;
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

impl Inflater {
    pub fn new() -> Self {
        Self(Decompressor::new())
    }

    /// One or several gzip members, one after the other.
    pub fn gzip(
        &mut self,
        body: &[u8],
        out: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<(), DecodeError> {
        let mut rest = body;
        loop {
            let start = out.len();
            let hint = match rest.last_chunk::<4>() {
                Some(size) if rest.len() >= MEMBER_BYTES_MIN => u32::from_le_bytes(*size) as usize,
                _ => return Err(DecodeError::broken("The gzip body is cut short.")),
            };
            // One byte more than said tells an honest trailer from a lie without another try.
            let hint = hint
                .saturating_add(1)
                .min(rest.len().saturating_mul(RATIO_GUESS));
            self.inflate(Wrapper::Gzip, rest, out, hint, bytes_max)?;
            let member = out.get(start..).unwrap_or_default();
            match after_member(rest, member) {
                [] => return Ok(()),
                more => rest = more,
            }
        }
    }

    /// zlib when the first two bytes say so, else bare deflate.
    pub fn deflate(
        &mut self,
        body: &[u8],
        out: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<(), DecodeError> {
        let hint = body.len().saturating_mul(RATIO_GUESS);
        if let [first, second, ..] = body
            && first & 0x0f == 8
            && u16::from_be_bytes([*first, *second]).is_multiple_of(31)
        {
            match self.inflate(Wrapper::Zlib, body, out, hint, bytes_max) {
                // A bare stream may begin like a zlib header by chance.
                Err(DecodeError::Broken(_)) => out.clear(),
                done => return done,
            }
        }
        self.inflate(Wrapper::Bare, body, out, hint, bytes_max)
    }

    /// Appends what `input` inflates to. `out` holds at most `bytes_max` bytes afterwards.
    fn inflate(
        &mut self,
        wrapper: Wrapper,
        input: &[u8],
        out: &mut Vec<u8>,
        hint: usize,
        bytes_max: usize,
    ) -> Result<(), DecodeError> {
        let start = out.len();
        let room_max = bytes_max.saturating_sub(start);
        let mut room = hint.max(256).min(room_max);
        loop {
            out.resize(start + room, 0);
            let target = out.get_mut(start..).unwrap_or_default();
            let result = match wrapper {
                Wrapper::Gzip => self.0.gzip_decompress(input, target),
                Wrapper::Zlib => self.0.zlib_decompress(input, target),
                Wrapper::Bare => self.0.deflate_decompress(input, target),
            };
            match result {
                Ok(written) => {
                    out.truncate(start + written);
                    return Ok(());
                }
                Err(DecompressionError::BadData) => {
                    out.truncate(start);
                    return Err(DecodeError::broken(
                        "The body is not valid gzip or deflate data, or is cut short.",
                    ));
                }
                Err(DecompressionError::InsufficientSpace) => {
                    room = grown(room, room_max).ok_or(DecodeError::TooLarge)?;
                }
            }
        }
    }
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
    if rest.ends_with(&size) && memchr::memmem::find(later, &[0x1f, 0x8b, 0x08]).is_none() {
        return &[];
    }
    let mut crc = Crc::new();
    crc.update(member);
    let mut trailer = [0; 8];
    trailer[..4].copy_from_slice(&crc.sum().to_le_bytes());
    trailer[4..].copy_from_slice(&size);
    let end = memchr::memmem::find(rest, &trailer).map_or(rest.len(), |at| at + trailer.len());
    rest.get(end..).unwrap_or_default()
}
