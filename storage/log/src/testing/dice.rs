//! Reproducible chance.

/// A small generator (xorshift64*): the same seed throws the same numbers, on every machine.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Any number.
    pub fn throw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.throw().checked_rem(limit).unwrap_or(0)
    }
}
