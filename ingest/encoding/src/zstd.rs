//! Zstandard.

use crate::decoder::{DecodeError, grown, lengthen};
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

/// RFC 9659: over HTTP a window is at most 8 MiB, so a header cannot make us allocate more.
const WINDOW_LOG_MAX: u32 = 23;

/// A decompression context, reused; `None` when zstd could not make one.
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
    ) -> Result<(), DecodeError> {
        let done = self.frames(body, out, bytes_max);
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
    ) -> Result<(), DecodeError> {
        let broken = || DecodeError::broken("The body is not valid zstd data, or is cut short.");
        let decoder = self.0.as_mut().ok_or_else(broken)?;
        let mut input = InBuffer::around(body);
        let mut filled = 0;
        loop {
            if filled == out.len() {
                let limit = bytes_max.saturating_add(1);
                let len = grown(out.len(), limit).ok_or(DecodeError::TooLarge)?;
                lengthen(out, filled, len, bytes_max);
            }
            let room = out.get_mut(filled..).unwrap_or_default();
            let mut output = OutBuffer::around(room);
            let hint = decoder.run(&mut input, &mut output).map_err(|_| broken())?;
            let (written, room) = (output.pos(), output.capacity());
            filled += written;
            let input_done = input.pos() == body.len();
            match hint {
                0 if input_done => break,
                // The next frame.
                0 => decoder.reinit().map_err(|_| broken())?,
                _ if input_done && written < room => return Err(broken()),
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
