//! Access to internals for the fuzz targets, and helpers that they share with our own tests;
//! compiled only for these and with the feature `testing`.

use crate::index::Index;
use crate::{Parser, timestamp};
use millrace_rows::Micros;

/// Returns a parser that does without the processor's AVX-512.
#[must_use]
pub fn portable_parser() -> Parser {
    Parser::with_index(Index::portable())
}

/// Instant that a timestamp names; `None` if it is none.
#[must_use]
pub fn timestamp(text: &[u8]) -> Option<Micros> {
    timestamp::parse(text)
}

/// Brackets that are open at once outside strings; right for any text that is JSON.
#[must_use]
pub fn depth(text: &str) -> usize {
    let (mut open, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => open += 1,
            b'}' | b']' if !in_string => open = open.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest
}
