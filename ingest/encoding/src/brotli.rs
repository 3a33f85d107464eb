//! Brotli.

use crate::decoder::{DecodeError, grown, lengthen};
use std::io::Read;

/// Bytes the decoder takes from the input at a time.
const INPUT_BYTES: usize = 4 << 10;

/// Appends what `body` decodes to.
pub fn decode(body: &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Result<(), DecodeError> {
    if body.is_empty() {
        return Err(DecodeError::broken("The brotli body is empty."));
    }
    let mut reader = brotli::Decompressor::new(body, INPUT_BYTES);
    let mut filled = 0;
    loop {
        if filled == out.len() {
            // One byte past the limit is asked for, to tell "just fits" from "too large".
            let len = grown(out.len(), bytes_max.saturating_add(1)).ok_or(DecodeError::TooLarge)?;
            lengthen(out, filled, len, bytes_max);
        }
        let room = out.get_mut(filled..).unwrap_or_default();
        match reader.read(room) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(_) => {
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
