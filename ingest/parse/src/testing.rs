//! Doors to the inside, for the fuzz targets; compiled only with the feature `testing`.

use crate::index::Index;
use crate::{Parser, timestamp};
use millrace_rows::Micros;

/// A parser that does without the processor's AVX-512.
#[must_use]
pub fn portable_parser() -> Parser {
    Parser::with_index(Index::portable())
}

/// The instant that a timestamp names; `None` if it is none.
#[must_use]
pub fn timestamp(text: &[u8]) -> Option<Micros> {
    timestamp::parse(text)
}
