//! Zstandard, with windows of 8 MiB at most.
//!
//! A block may bring three tables in 16 bytes, which takes 4 µs. So a long body is given to the
//! decoder a block at a time, as it asks for them, and they are counted.

use crate::blocks::Blocks;
use crate::decode_error::DecodeError;
use crate::growth::{grown, lengthen};
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

/// Largest window, by its logarithm. RFC 9659: over HTTP a window is at most 8 MiB, so a header
/// cannot make us allocate more.
const WINDOW_LOG_MAX: u32 = 23;
/// Bytes of a frame that give the length of the rest of its head.
const FRAME_HEAD_BYTES: usize = 5;

/// Decompression context, reused; `None` when zstd could not make one.
pub struct Context(Option<Decoder<'static>>);

impl Context {
    pub fn new() -> Self {
        let context = Decoder::new().and_then(|mut decoder| {
            decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))?;
            Ok(decoder)
        });
        Self(context.ok())
    }

    /// Appends what the frames of `body` decode to.
    pub fn decode(
        &mut self,
        body: &[u8],
        out: &mut Vec<u8>,
        bytes_max: usize,
        blocks: &mut Blocks,
    ) -> Result<(), DecodeError> {
        let done = self.frames(body, out, bytes_max, blocks);
        if done.is_err() {
            // A context that stopped within a frame is not to be used for the next body.
            *self = Self::new();
        }
        done
    }

    fn frames(
        &mut self,
        body: &[u8],
        out: &mut Vec<u8>,
        bytes_max: usize,
        blocks: &mut Blocks,
    ) -> Result<(), DecodeError> {
        let broken = || DecodeError::broken("The body is not valid zstd data, or is cut short.");
        let decoder = self.0.as_mut().ok_or_else(broken)?;
        let is_counted = blocks.is_counted();
        let (mut asked, mut taken, mut filled) = (FRAME_HEAD_BYTES, 0, 0);
        loop {
            if filled == out.len() {
                let limit = bytes_max.saturating_add(1);
                let len = grown(out.len(), limit).ok_or(DecodeError::TooLarge)?;
                lengthen(out, filled, len, bytes_max);
            }
            let space = out.get_mut(filled..).unwrap_or_default();
            let mut output = OutBuffer::around(space);
            let given = body.get(taken..).unwrap_or_default();
            let given = given.get(..asked).filter(|_| is_counted).unwrap_or(given);
            let mut input = InBuffer::around(given);
            let hint = decoder.run(&mut input, &mut output).map_err(|_| broken())?;
            let (written, space) = (output.pos(), output.capacity());
            taken += input.pos();
            filled += written;
            if is_counted {
                blocks.count(filled)?;
            }
            let input_done = taken == body.len();
            asked = hint;
            match hint {
                0 if input_done => break,
                // The next frame.
                0 => {
                    decoder.reinit().map_err(|_| broken())?;
                    asked = FRAME_HEAD_BYTES;
                }
                _ if input_done && written < space => return Err(broken()),
                _ => {}
            }
        }
        out.truncate(filled);
        decoder.reinit().map_err(|_| broken())?;
        if filled > bytes_max {
            Err(DecodeError::TooLarge)
        } else {
            Ok(())
        }
    }
}
