//! Lines of JSON on their way, compressed: as they come, or by us, and whole or not.

use super::{Sink, staged};
use crate::FetchError;
use flate2::Compression;
use flate2::write::{GzEncoder, MultiGzDecoder};
use std::io::{self, Write};

/// Passes a part on, always compressed, and looks at what is in it.
pub(super) struct Lines<'a> {
    /// Until there is something: a part without events is nothing, not the frame of nothing.
    unused: Option<(Sink<'a>, bool)>,
    coding: Option<Coding<'a>>,
}

enum Coding<'a> {
    /// Comes compressed: is handed on as it comes, and decompressed to be looked at.
    Gzip(Sink<'a>, MultiGzDecoder<Look>),
    /// Comes as it is: small answers do.
    Plain(GzEncoder<Sink<'a>>, Look),
}

impl<'a> Lines<'a> {
    pub(super) fn new(into: Sink<'a>, is_compressed: bool) -> Self {
        Self {
            unused: Some((into, is_compressed)),
            coding: None,
        }
    }

    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(), FetchError> {
        if bytes.is_empty() {
            return Ok(());
        }
        if let Some((into, is_compressed)) = self.unused.take() {
            let look = Look::default();
            self.coding = Some(match is_compressed {
                true => Coding::Gzip(into, MultiGzDecoder::new(look)),
                false => Coding::Plain(GzEncoder::new(into, Compression::fast()), look),
            });
        }
        match &mut self.coding {
            None => Ok(()),
            Some(Coding::Gzip(into, decoder)) => {
                decoder.write_all(bytes).map_err(|error| damaged(&error))?;
                staged(into.write_all(bytes))
            }
            Some(Coding::Plain(encoder, look)) => {
                look.write_all(bytes).map_err(|error| damaged(&error))?;
                staged(encoder.write_all(bytes))
            }
        }
    }

    /// At the end of the answer: whether it is the end of the part.
    pub(super) fn finish(self) -> Result<(), FetchError> {
        let look = match self.coding {
            None => return Ok(()),
            Some(Coding::Gzip(_, decoder)) => decoder.finish().map_err(|error| damaged(&error))?,
            Some(Coding::Plain(encoder, look)) => {
                encoder.finish()?;
                look
            }
        };
        if look.is_within_line {
            return Err(FetchError::again(
                "The part ends in the middle of a line: the transfer broke off.",
            ));
        }
        Ok(())
    }
}

fn damaged(error: &io::Error) -> FetchError {
    FetchError::again(format!("The part cannot be read: {error}."))
}

/// Looks at lines: each must be an object, and the last must end. What a service writes into the part when it gives
/// up is no object.
#[derive(Debug, Default)]
struct Look {
    is_within_line: bool,
}

impl Write for Look {
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
                        "it has a line that is no event: {shown:?}"
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
