//! How many blocks a compressed body may be made of.
//!
//! A block of deflate or zstd brings tables, which take up to two microseconds to be made and can be asked for in ten bytes.
//! Compressors make one for some ten thousand bytes, or for whatever was there when somebody flushed. So whoever has
//! a body inflated a block at a time counts them, and stops where they are not about what comes out of them.

use crate::DecodeError;

/// Bytes as sent up to which a body may be decoded in one call, however many blocks it has: what takes some ten
/// milliseconds of nothing but tables.
pub const UNCOUNTED_BYTES_MAX: usize = 64 << 10;
/// Blocks that any body may have: a thousand events, with a flush behind each.
const BLOCKS_MIN: usize = 2_048;
/// Decoded bytes for each further one: less than an event has, so that no client that flushes comes near.
const BYTES_PER_BLOCK: usize = 256;

/// The blocks of a body so far, in whatever parts it is.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    is_counted: bool,
    is_one_try: bool,
    count: usize,
    /// Bytes that came out of parts before this one.
    decoded_bytes: usize,
}

impl Blocks {
    /// Those of a body that was sent as so many bytes: of a short one they need not be counted.
    pub const fn of(sent_bytes: usize) -> Self {
        Self {
            is_counted: sent_bytes > UNCOUNTED_BYTES_MAX,
            is_one_try: false,
            count: 0,
            decoded_bytes: 0,
        }
    }

    /// The same of one that is decoded once, whatever its end says of what comes out.
    pub const fn of_one_try(sent_bytes: usize) -> Self {
        Self {
            is_one_try: true,
            ..Self::of(sent_bytes)
        }
    }

    pub const fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// The room to try first, where so much is said to come out.
    pub const fn room(&self, said: usize) -> usize {
        if self.is_one_try { usize::MAX } else { said }
    }

    /// Counts one more, when so many bytes have come out of this part.
    pub fn count(&mut self, decoded_bytes: usize) -> Result<(), DecodeError> {
        self.count += 1;
        let decoded_bytes = self.decoded_bytes + decoded_bytes;
        if self.count > BLOCKS_MIN + decoded_bytes / BYTES_PER_BLOCK {
            return Err(DecodeError::TooManyBlocks);
        }
        Ok(())
    }

    /// The next part begins, as so many bytes came out of this one.
    pub fn next_part(&mut self, decoded_bytes: usize) {
        self.decoded_bytes += decoded_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_may_have_some_blocks_of_nothing_and_more_the_more_it_says() {
        for (decoded_bytes, blocks_max) in [(0, 2_048), (255, 2_048), (1 << 20, 2_048 + 4_096)] {
            let mut blocks = Blocks::of(0);
            blocks.next_part(decoded_bytes / 2);
            let counted = std::iter::repeat_with(|| blocks.count(decoded_bytes.div_ceil(2)));
            let taken = counted.take_while(Result::is_ok).count();
            assert_eq!(taken, blocks_max, "{decoded_bytes}");
        }
    }
}
