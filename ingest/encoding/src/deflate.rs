//! gzip and deflate, by libdeflate where that is safe.
//!
//! libdeflate inflates a whole member in one call into a buffer that must be large enough, faster
//! than any decoder that can stop on the way. So it costs whatever the input makes it cost, each
//! time it is tried: a stream of blocks without output takes 0.4 µs for each byte. It gets one try,
//! at short bodies, with a buffer of the size that the trailer gives, or that JSON mostly takes.
//! Everything else is inflated [a block at a time](Blockwise).

use crate::blocks::Blocks;
use crate::blockwise::{Blockwise, Output, gzip_trailer};
use crate::decode_error::DecodeError;
use crate::growth::lengthen;
use libdeflater::{DecompressionError, Decompressor};
use memchr::memmem;

/// Bytes of the smallest gzip member: header, an empty block, trailer.
const MEMBER_BYTES_MIN: usize = 18;
/// First bytes of a gzip member: its magic, and deflate, the only method there is.
const MEMBER_START: &[u8] = &[0x1f, 0x8b, 0x08];
/// First guess of the ratio of decoded to compressed bytes: typical batches have 12 to 14.
const RATIO_GUESS: usize = 20;
/// Smallest space for a try.
const SPACE_BYTES_MIN: usize = 256;

/// Decompressors, reused.
pub struct Inflater {
    fast: Decompressor,
    blockwise: Option<Blockwise>,
}

/// Wrapper of the data, which decides on the call of libdeflate.
#[derive(Clone, Copy)]
enum Wrapper {
    Gzip,
    Zlib,
    Bare,
}

impl Default for Inflater {
    fn default() -> Self {
        Self {
            fast: Decompressor::new(),
            blockwise: None,
        }
    }
}

impl Inflater {
    /// Inflates one or several gzip members, one after the other.
    pub fn gzip(
        &mut self,
        body: &[u8],
        out: &mut Vec<u8>,
        bytes_max: usize,
        blocks: &mut Blocks,
    ) -> Result<(), DecodeError> {
        let mut output = output(out, bytes_max, blocks);
        let mut rest = body;
        loop {
            let hint = match rest.last_chunk::<4>() {
                Some(size) if rest.len() >= MEMBER_BYTES_MIN => u32::from_le_bytes(*size) as usize,
                _ => return Err(DecodeError::broken("The gzip body is cut short.")),
            };
            let start = output.filled;
            // One byte more than said tells an honest trailer from a lie.
            let space = hint.saturating_add(1);
            rest = if self.is_inflated(Wrapper::Gzip, rest, &mut output, space)? {
                let member = output.out.get(start..output.filled);
                after_member(rest, member.unwrap_or_default())
            } else {
                self.blockwise().gzip(rest, &mut output)?
            };
            if rest.is_empty() {
                break;
            }
            if !may_be_member(rest) {
                return Err(DecodeError::broken(
                    "Other bytes follow the end of the gzip data. Send nothing behind it.",
                ));
            }
        }
        let filled = output.filled;
        out.truncate(filled);
        Ok(())
    }

    /// Inflates zlib when the first two bytes say so, else bare deflate.
    pub fn deflate(
        &mut self,
        body: &[u8],
        out: &mut Vec<u8>,
        bytes_max: usize,
        blocks: &mut Blocks,
    ) -> Result<(), DecodeError> {
        let space = body.len().saturating_mul(RATIO_GUESS);
        let mut output = output(out, bytes_max, blocks);
        let is_zlib = has_zlib_header(body);
        let wrapper = if is_zlib {
            Wrapper::Zlib
        } else {
            Wrapper::Bare
        };
        match self.is_inflated(wrapper, body, &mut output, space) {
            Ok(true) => {}
            Ok(false) if is_zlib => self.blockwise().zlib(body, &mut output)?,
            Err(DecodeError::Broken(_)) if is_zlib => {
                // A bare stream whose first bytes look like zlib's header.
                self.blockwise().bare(body, &mut output)?;
            }
            is_inflated => {
                if !is_inflated? {
                    self.blockwise().bare(body, &mut output)?;
                }
            }
        }
        let filled = output.filled;
        out.truncate(filled);
        Ok(())
    }

    fn blockwise(&mut self) -> &mut Blockwise {
        self.blockwise.get_or_insert_default()
    }

    /// Inflates `input` behind the output so far; returns false if libdeflate may not, or `space`
    /// is too small.
    fn is_inflated(
        &mut self,
        wrapper: Wrapper,
        input: &[u8],
        output: &mut Output<'_>,
        space: usize,
    ) -> Result<bool, DecodeError> {
        if output.blocks.is_counted() {
            return Ok(false);
        }
        let Output { out, filled, .. } = output;
        let space_max = output.bytes_max.saturating_sub(*filled);
        let space = output
            .blocks
            .space(space)
            .max(SPACE_BYTES_MIN)
            .min(space_max);
        let end = *filled + space;
        // Never cut: bytes that were filled with zeros once need not be again, of which a body of a
        // million empty members would make a bomb.
        if out.len() < end {
            lengthen(out, *filled, end, output.bytes_max);
        }
        let target = out.get_mut(*filled..).unwrap_or_default();
        let space = target.len().min(space_max);
        let target = target.get_mut(..space).unwrap_or_default();
        let result = match wrapper {
            Wrapper::Gzip => self.fast.gzip_decompress(input, target),
            Wrapper::Zlib => self.fast.zlib_decompress(input, target),
            Wrapper::Bare => self.fast.deflate_decompress(input, target),
        };
        match result {
            Ok(written) => {
                *filled += written;
                Ok(true)
            }
            Err(DecompressionError::InsufficientSpace) if space < space_max => Ok(false),
            Err(DecompressionError::InsufficientSpace) => Err(DecodeError::TooLarge),
            Err(DecompressionError::BadData) => Err(DecodeError::broken(
                "The body is not valid gzip or deflate data, or is cut short.",
            )),
        }
    }
}

fn output<'a>(out: &'a mut Vec<u8>, bytes_max: usize, blocks: &'a mut Blocks) -> Output<'a> {
    Output {
        out,
        filled: 0,
        bytes_max,
        blocks,
    }
}

/// Bytes behind the gzip member that `rest` begins with and that inflated to `member`.
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
    rest.get(end_of_member(rest, &gzip_trailer(member))..)
        .unwrap_or_default()
}

/// End of the member that `rest` begins with: behind its trailer. The trailer's bytes may occur
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

/// Returns true if bytes begin like a gzip member, or are cut short within such a beginning.
fn may_be_member(bytes: &[u8]) -> bool {
    bytes.starts_with(MEMBER_START) || MEMBER_START.starts_with(bytes)
}

/// Returns true if a deflated body begins like zlib's; a bare stream may by chance.
fn has_zlib_header(body: &[u8]) -> bool {
    matches!(body, [first, second, ..]
        if first & 0x0f == 8 && u16::from_be_bytes([*first, *second]).is_multiple_of(31))
}
