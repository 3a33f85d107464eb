//! Limit of the blocks that a compressed body may be made of.
//!
//! A block of deflate or zstd brings tables, which take up to two microseconds to be made and can
//! be asked for in ten bytes. Compressors make one for some ten thousand bytes, or for each flush.
//! So blocks are counted where a body is inflated a block at a time, and decoding stops when they
//! are too many for their output.

use crate::DecodeError;

/// Bytes as sent up to which a body may be decoded in one call, however many blocks it has: nothing
/// but tables takes some ten milliseconds.
pub const UNCOUNTED_BYTES_MAX: usize = 64 << 10;
/// Blocks that any body may have: a thousand events, with a flush behind each.
const BLOCKS_MIN: usize = 2_048;
/// Decoded bytes for each further block: less than an event has, so that no client that flushes
/// comes near.
const BYTES_PER_BLOCK: usize = 256;

/// Count of the blocks of a body so far, in all of its parts.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    is_counted: bool,
    is_one_try: bool,
    count: usize,
    /// Decoded bytes of the parts before this one.
    decoded_bytes: usize,
}

impl Blocks {
    /// Starts a count for a body of `sent_bytes`: blocks of a short one need not be counted.
    pub const fn of(sent_bytes: usize) -> Self {
        Self {
            is_counted: sent_bytes > UNCOUNTED_BYTES_MAX,
            is_one_try: false,
            count: 0,
            decoded_bytes: 0,
        }
    }

    /// Starts a count for a body that is decoded once, whatever size its trailer gives.
    pub const fn of_one_try(sent_bytes: usize) -> Self {
        Self {
            is_one_try: true,
            ..Self::of(sent_bytes)
        }
    }

    pub const fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// Space to try first, where the output is said to be so large.
    pub const fn space(&self, said: usize) -> usize {
        if self.is_one_try { usize::MAX } else { said }
    }

    /// Counts a block, when this part has decoded to so many bytes.
    ///
    /// # Errors
    ///
    /// [`DecodeError::TooManyBlocks`].
    pub fn count(&mut self, decoded_bytes: usize) -> Result<(), DecodeError> {
        self.count += 1;
        let decoded_bytes = self.decoded_bytes + decoded_bytes;
        if self.count > BLOCKS_MIN + decoded_bytes / BYTES_PER_BLOCK {
            return Err(DecodeError::TooManyBlocks);
        }
        Ok(())
    }

    /// Begins the next part, when this one decoded to so many bytes.
    pub fn next_part(&mut self, decoded_bytes: usize) {
        self.decoded_bytes += decoded_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_may_have_some_blocks_of_nothing_and_more_for_more_output() {
        for (decoded_bytes, blocks_max) in [(0, 2_048), (255, 2_048), (1 << 20, 2_048 + 4_096)] {
            let mut blocks = Blocks::of(0);
            blocks.next_part(decoded_bytes / 2);
            let counted = std::iter::repeat_with(|| blocks.count(decoded_bytes.div_ceil(2)));
            let taken = counted.take_while(Result::is_ok).count();
            assert_eq!(taken, blocks_max, "{decoded_bytes}");
        }
    }
}
