//! Counts rows in Apache Arrow's [stream format][spec]: a sequence of messages, each with a head
//! that has its type, its number of rows and the length of its body.
//!
//! A message is `FF FF FF FF`, the length of its head (4 bytes, little endian; 0 ends the stream),
//! the head (a FlatBuffer, which `arrow-ipc` verifies and reads) and the body.
//!
//! [spec]: https://arrow.apache.org/docs/format/Columnar.html#ipc-streaming-format

use super::error::CountError;
use arrow_ipc::root_as_message_with_opts;
use flatbuffers::VerifierOptions;

const CONTINUATION: u32 = u32::MAX;
/// Bytes before a head.
const PREFIX_BYTES: usize = 8;
/// Longest head in bytes: 16 for each buffer of each column.
const HEAD_BYTES_MAX: usize = 16 << 20;
/// Deepest nesting of a head's tables: a level for each list in a column's type, two for each map.
/// Verification recurses, and the largest queries have some two hundred levels.
const HEAD_DEPTH_MAX: usize = 256;

/// Counter that reads heads and skips bodies.
#[derive(Debug, Default)]
pub(super) struct ArrowCounter {
    rows: u64,
    state: State,
    /// Bytes of a prefix or a head that have arrived.
    gathered: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Prefix,
    /// Length of the head in bytes.
    Head(usize),
    /// Bytes of the body still to come.
    Body(u64),
    Ended,
}

impl ArrowCounter {
    pub(super) fn update(&mut self, mut piece: &[u8]) -> Result<(), CountError> {
        while !piece.is_empty() {
            piece = match self.state {
                State::Prefix => self.gather(piece, PREFIX_BYTES, Self::prefix)?,
                State::Head(length) => self.gather(piece, length, Self::head)?,
                State::Body(rest) => {
                    let here = usize::try_from(rest).unwrap_or(usize::MAX).min(piece.len());
                    self.body(rest - here as u64);
                    piece.get(here..).unwrap_or_default()
                }
                State::Ended => {
                    return Err(CountError::Malformed(
                        "something after the end of an Arrow stream",
                    ));
                }
            };
        }
        Ok(())
    }

    pub(super) const fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn finish(self) -> Result<u64, CountError> {
        match self.state {
            State::Ended => Ok(self.rows),
            State::Prefix | State::Head(_) | State::Body(_) => Err(CountError::Cut),
        }
    }

    /// Takes the missing part of `length` bytes from a piece, and acts when they are complete.
    /// Returns the rest of the piece.
    fn gather<'p>(
        &mut self,
        piece: &'p [u8],
        length: usize,
        act: fn(&mut Self, &[u8]) -> Result<(), CountError>,
    ) -> Result<&'p [u8], CountError> {
        let wanting = length.saturating_sub(self.gathered.len()).min(piece.len());
        let (taken, rest) = piece.split_at_checked(wanting).unwrap_or((piece, &[]));
        self.gathered.extend_from_slice(taken);
        if self.gathered.len() == length {
            let gathered = std::mem::take(&mut self.gathered);
            act(self, &gathered)?;
        }
        Ok(rest)
    }

    fn prefix(&mut self, bytes: &[u8]) -> Result<(), CountError> {
        let number = |at: usize| {
            let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk::<4>);
            bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
        };
        let length = usize::try_from(number(4)).unwrap_or(usize::MAX);
        if number(0) != CONTINUATION || length > HEAD_BYTES_MAX {
            return Err(CountError::Malformed("no message of an Arrow stream"));
        }
        self.state = match length {
            0 => State::Ended,
            length => State::Head(length),
        };
        Ok(())
    }

    fn head(&mut self, bytes: &[u8]) -> Result<(), CountError> {
        let options = VerifierOptions {
            max_depth: HEAD_DEPTH_MAX,
            ..VerifierOptions::default()
        };
        let message = root_as_message_with_opts(&options, bytes)
            .map_err(|_| CountError::Malformed("no head of a message"))?;
        let body = u64::try_from(message.bodyLength())
            .map_err(|_| CountError::Malformed("a message of less than nothing"))?;
        if let Some(batch) = message.header_as_record_batch() {
            let rows = u64::try_from(batch.length());
            self.rows += rows.map_err(|_| CountError::Malformed("a batch of less than no rows"))?;
        }
        self.body(body);
        Ok(())
    }

    fn body(&mut self, rest: u64) {
        self.state = match rest {
            0 => State::Prefix,
            rest => State::Body(rest),
        };
    }
}
