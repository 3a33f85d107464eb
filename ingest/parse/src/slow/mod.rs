//! Slow path: bodies that the fast one refuses are read again, byte by byte.
//!
//! Either the body has something that real clients send and that can be repaired, in a copy that
//! then takes the fast path (bare `NaN`, `Infinity` and `-Infinity` become `null`, CESU-8 becomes
//! UTF-8, a byte order mark goes); or the text is broken, and the scan finds the error and its
//! place.

mod errors;
mod scan;
mod utf8;

pub use errors::{invalid_body, invalid_json};

use crate::ApiError;
use errors::{BYTE_ORDER_MARK, REPAIRS_MAX, advised, more_than_json, too_deep, too_many_repairs};
use scan::ScanError;

/// Body that the fast path can read.
#[derive(Debug, Default)]
pub struct Repaired {
    /// Text of the body; reused.
    pub text: Vec<u8>,
    /// Offsets in `text` of the numbers that became `null`, rising.
    pub nulls: Vec<u32>,
}

/// Repairs a body into `repaired`, or returns its error.
#[cold]
pub fn repair(body: &[u8], depth_max: usize, repaired: &mut Repaired) -> Result<(), ApiError> {
    let halves = utf8::pairs(body).map_err(|error| advised(error, body))?;
    let has_mark = body.starts_with(BYTE_ORDER_MARK);
    let start = if has_mark { BYTE_ORDER_MARK.len() } else { 0 };
    let words = scan::scan(body, start, depth_max).map_err(|error| match error {
        ScanError::Syntax(at) => advised(invalid_json(at), body),
        ScanError::More(at) => more_than_json(body, at),
        ScanError::TooDeep(at) => too_deep(at, depth_max),
        ScanError::TooMany => too_many_repairs(),
        ScanError::NotAContainer => invalid_body(),
    })?;
    if halves.len() + words.len() > REPAIRS_MAX {
        return Err(too_many_repairs());
    }
    apply(body, start, &halves, &words, repaired);
    Ok(())
}

/// Copies a body from `start` on, with the pairs and words that begin at these offsets repaired.
fn apply(body: &[u8], start: usize, halves: &[u32], words: &[u32], repaired: &mut Repaired) {
    let Repaired { text, nulls } = repaired;
    text.clear();
    // Only NaN becomes longer, by a byte.
    text.reserve(body.len() + words.len());
    nulls.clear();
    let mut copied = start;
    let (mut halves, mut words) = (halves.iter().peekable(), words.iter().peekable());
    loop {
        let word = words.peek().map_or(u32::MAX, |at| **at);
        let is_pair = halves.peek().is_some_and(|at| **at < word);
        let next = if is_pair { halves.next() } else { words.next() };
        let Some(at) = next else { break };
        let at = *at as usize;
        match body.get(copied..at).unwrap_or_default() {
            // The comma of a list.
            [byte] => text.push(*byte),
            plain => text.extend_from_slice(plain),
        }
        let rest = body.get(at..).unwrap_or_default();
        if let Some(character) = utf8::pair(rest).filter(|_| is_pair) {
            let mut bytes = [0; 4];
            text.extend_from_slice(character.encode_utf8(&mut bytes).as_bytes());
            copied = at + utf8::PAIR_BYTES;
        } else {
            nulls.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
            text.extend_from_slice(b"null");
            copied = at + scan::no_number_len(rest).unwrap_or_default();
        }
    }
    text.extend_from_slice(body.get(copied..).unwrap_or_default());
}
