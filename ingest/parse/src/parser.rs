//! The entry point.

use crate::{ApiError, Facts, KeyLookup, ParseError, Parsed};
use millrace_rows::Batch;

/// Turns bodies into rows. One per core: all its buffers are reused.
#[derive(Debug, Default)]
pub struct Parser {
    spare: Vec<Vec<u8>>,
}

impl Parser {
    /// Parses a decoded body: JSON text.
    ///
    /// `body` holds the same bytes afterwards, so that it can be parsed again; its capacity may
    /// have grown by a little, as the parser reads a few bytes past the end. `find` looks into
    /// the key cache without waiting.
    pub fn parse(
        &mut self,
        body: &mut Vec<u8>,
        facts: &Facts<'_>,
        find: &mut dyn FnMut(&str) -> KeyLookup,
    ) -> Result<Parsed, ParseError> {
        let _ = (body, facts, find);
        Err(ApiError::invalid("invalid_json", "The body is not JSON.").into())
    }

    /// Takes back a batch's row buffers for reuse.
    pub fn recycle(&mut self, batch: Batch) {
        self.spare
            .extend(batch.groups.into_iter().map(|group| group.bytes));
    }
}
