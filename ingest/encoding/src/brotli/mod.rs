//! Brotli, with windows no larger than the output may be.
//!
//! A decoder gives nothing out before its window is full, and copies that take no bit can fill any
//! window: 60 bytes are 16 MiB of work. Here no window is larger than the output that is allowed.
//! What a smaller one forgets is missed only behind that limit, where nothing is read.

use crate::decode_error::DecodeError;
use crate::growth::{grown, lengthen};
use brotli::enc::StandardAlloc;
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};

/// Bits of the smallest window of the standard.
const WINDOW_BITS_MIN: u32 = 10;
/// Bits of the largest window of the standard.
const WINDOW_BITS_MAX: u32 = 24;

/// Appends the decoded `body`.
pub fn decode(body: &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Result<(), DecodeError> {
    if body.is_empty() {
        return Err(DecodeError::broken("The brotli body is empty."));
    }
    let mut stream = Stream::of(body, bytes_max);
    let mut filled = 0;
    loop {
        if filled == out.len() {
            // One byte past the limit is asked for, to tell "just fits" from "too large".
            let len = grown(out.len(), bytes_max.saturating_add(1)).ok_or(DecodeError::TooLarge)?;
            lengthen(out, filled, len, bytes_max);
        }
        let (result, written) = stream.write(out.get_mut(filled..).unwrap_or_default());
        filled += written;
        match result {
            BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultSuccess if stream.is_read() => break,
            // Behind the limit the window is too small to tell.
            _ if filled > bytes_max => break,
            _ => {
                return Err(DecodeError::broken(
                    "The body is not valid brotli data, or is cut short.",
                ));
            }
        }
    }
    out.truncate(filled);
    if filled > bytes_max {
        Err(DecodeError::TooLarge)
    } else {
        Ok(())
    }
}

/// Stream that is being decoded.
struct Stream<'a> {
    body: &'a [u8],
    taken: usize,
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
}

impl<'a> Stream<'a> {
    /// Starts a stream whose output counts up to `bytes_max`.
    fn of(body: &'a [u8], bytes_max: usize) -> Self {
        let alloc = StandardAlloc::default();
        let mut stream = Self {
            body,
            taken: 0,
            state: BrotliState::new(alloc, alloc, alloc),
        };
        // Windows of a gigabyte are no part of the standard.
        stream.state.large_window = false;
        // The first byte says how large the window is, and no buffer is made before the next.
        let first = body.get(..1).unwrap_or_default();
        stream.step(first, &mut []);
        // The reach of copies is left as it is: that much comes out before the buffer goes round.
        let window_bits = &mut stream.state.window_bits;
        *window_bits = (*window_bits).min(window_bits_of(bytes_max));
        stream
    }

    /// Writes the next output.
    fn write(&mut self, space: &mut [u8]) -> (BrotliResult, usize) {
        self.step(self.body, space)
    }

    fn step(&mut self, input: &[u8], space: &mut [u8]) -> (BrotliResult, usize) {
        let mut input_bytes = input.len().saturating_sub(self.taken);
        let (mut space_bytes, mut written, mut all) = (space.len(), 0, 0);
        let result = BrotliDecompressStream(
            &mut input_bytes,
            &mut self.taken,
            input,
            &mut space_bytes,
            &mut written,
            space,
            &mut all,
            &mut self.state,
        );
        (result, written)
    }

    /// Returns true if nothing is left of the body.
    const fn is_read(&self) -> bool {
        self.taken == self.body.len()
    }
}

/// Bits of the smallest window that has space for one byte more than that.
fn window_bits_of(bytes_max: usize) -> u32 {
    let fits = |bits: &u32| bytes_max >> bits == 0;
    (WINDOW_BITS_MIN..WINDOW_BITS_MAX)
        .find(fits)
        .unwrap_or(WINDOW_BITS_MAX)
}

#[cfg(test)]
mod tests;
