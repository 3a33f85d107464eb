//! Validates and compresses downloaded lines of JSON.

use super::{Sink, write_result};
use crate::FetchError;
use flate2::Compression;
use flate2::write::{GzEncoder, MultiGzDecoder};
use std::io::{self, Write};

/// Writes a part, always compressed, and checks its lines.
pub(super) struct GzipLines<'a> {
    /// Output until the first byte: a part without events is an empty file, not an empty stream.
    unused: Option<(Sink<'a>, bool)>,
    coding: Option<Coding<'a>>,
}

enum Coding<'a> {
    /// A compressed response, which is written unchanged, and decompressed to be checked.
    Gzip(Sink<'a>, MultiGzDecoder<LineCheck>),
    /// An uncompressed response, as small ones are.
    Plain(GzEncoder<Sink<'a>>, LineCheck),
}

impl<'a> GzipLines<'a> {
    pub(super) fn new(into: Sink<'a>, is_compressed: bool) -> Self {
        Self {
            unused: Some((into, is_compressed)),
            coding: None,
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), FetchError> {
        if bytes.is_empty() {
            return Ok(());
        }
        if let Some((into, is_compressed)) = self.unused.take() {
            let check = LineCheck::default();
            self.coding = Some(match is_compressed {
                true => Coding::Gzip(into, MultiGzDecoder::new(check)),
                false => Coding::Plain(GzEncoder::new(into, Compression::fast()), check),
            });
        }
        match &mut self.coding {
            None => Ok(()),
            Some(Coding::Gzip(into, decoder)) => {
                decoder.write_all(bytes).map_err(|error| damaged(&error))?;
                write_result(into.write_all(bytes))
            }
            Some(Coding::Plain(encoder, check)) => {
                check.write_all(bytes).map_err(|error| damaged(&error))?;
                write_result(encoder.write_all(bytes))
            }
        }
    }

    /// Ends the part; fails if the response ended before the part.
    pub(super) fn finish(self) -> Result<(), FetchError> {
        let check = match self.coding {
            None => return Ok(()),
            Some(Coding::Gzip(_, decoder)) => decoder.finish().map_err(|error| damaged(&error))?,
            Some(Coding::Plain(encoder, check)) => {
                encoder.finish()?;
                check
            }
        };
        if check.is_within_line {
            return Err(FetchError::retryable(
                "The part ends in the middle of a line: the transfer broke off.",
            ));
        }
        Ok(())
    }
}

fn damaged(error: &io::Error) -> FetchError {
    FetchError::retryable(format!("The part cannot be read: {error}."))
}

/// Checks lines: each must be an object, and the last must end. The message that a service writes
/// into the part when it gives up is no object.
#[derive(Debug, Default)]
struct LineCheck {
    is_within_line: bool,
}

impl Write for LineCheck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if !self.is_within_line {
                if first.is_ascii_whitespace() {
                    rest = rest.get(1..).unwrap_or_default();
                    continue;
                }
                if *first != b'{' {
                    let shown = String::from_utf8_lossy(rest)
                        .chars()
                        .take(60)
                        .collect::<String>();
                    return Err(io::Error::other(format!(
                        "it has a line that is not an event: {shown:?}"
                    )));
                }
                self.is_within_line = true;
            }
            match memchr::memchr(b'\n', rest) {
                Some(end) => {
                    self.is_within_line = false;
                    rest = rest.get(end + 1..).unwrap_or_default();
                }
                None => break,
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
