//! Limits of decoded bytes, by encoding, and the part of them that a core decodes itself.

use crate::Encoding;

/// Decoded bytes for each byte sent of a body whose key is not known yet: these take less than 1 ms
/// of a core and 1 MiB for each kB sent.
pub(super) const UNKNOWN_RATIO_MAX: usize = 40;
/// Decoded bytes for each byte sent of a body in a slow encoding whose key is not known yet.
pub(super) const UNKNOWN_SLOW_RATIO_MAX: usize = 16;

/// Bytes of JSON that a core parses itself: 10 ms at worst, at 20 ns a byte.
pub const ON_CORE_BYTES_MAX: usize = 512 << 10;
/// Bytes of a compressed body as sent that a core decodes itself: longer ones usually decode to
/// more than [`ON_CORE_BYTES_MAX`].
pub const ON_CORE_SENT_BYTES_MAX: usize = 64 << 10;
/// Decoded bytes of a slow encoding that a core deals with itself; a window of Brotli may be twice
/// as large.
pub(crate) const ON_CORE_SLOW_BYTES_MAX: usize = 256 << 10;
/// Bytes of a slow encoding as sent that may decode to more than that only for a known key: none is
/// decoded twice for it.
pub(crate) const ON_CORE_SLOW_SENT_BYTES_MAX: usize =
    ON_CORE_SLOW_BYTES_MAX / UNKNOWN_SLOW_RATIO_MAX;

/// Limits of decoded bytes, by encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Decoded bytes of encodings that are not slow.
    pub bytes_max: usize,
    /// Decoded bytes of Brotli and LZString.
    pub slow_bytes_max: usize,
}

impl DecodeLimits {
    /// Returns the same limit for every encoding.
    #[must_use]
    pub const fn of_all(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            slow_bytes_max: bytes_max,
        }
    }

    /// Decoded bytes of one encoding.
    #[must_use]
    pub const fn of(self, encoding: Encoding) -> usize {
        if encoding.is_slow() {
            self.slow_bytes_max
        } else {
            self.bytes_max
        }
    }

    /// Limits this by what a core decodes itself of a body of `sent_bytes`.
    ///
    /// That is all that a body without a known key may decode to, even if it is more than a core
    /// parses, so that no such body is decoded twice: each kB sent may cost 1 ms, and blocks
    /// without output cost 0.3 ms in each pass. Without parsing, decoding takes a millisecond or
    /// two.
    #[must_use]
    pub fn on_core(self, sent_bytes: usize) -> Self {
        let slow_bytes_max = match sent_bytes {
            ..=ON_CORE_SLOW_SENT_BYTES_MAX => ON_CORE_SLOW_BYTES_MAX,
            _ => 0,
        };
        let unknown = sent_bytes.min(ON_CORE_SENT_BYTES_MAX) * UNKNOWN_RATIO_MAX;
        Self {
            bytes_max: self.bytes_max.min(unknown.max(ON_CORE_BYTES_MAX)),
            slow_bytes_max: self.slow_bytes_max.min(slow_bytes_max),
        }
    }

    /// Limits that are left for other parts when one in `encoding` decoded to so many bytes.
    #[must_use]
    pub fn left_after(self, bytes: usize, encoding: Encoding) -> Self {
        let slow_bytes = if encoding.is_slow() { bytes } else { 0 };
        Self {
            slow_bytes_max: self.slow_bytes_max.saturating_sub(slow_bytes),
            ..self
        }
        .at_most(self.bytes_max.saturating_sub(bytes))
    }

    /// Limits this by so many bytes.
    #[must_use]
    pub fn at_most(self, bytes_max: usize) -> Self {
        Self {
            bytes_max: self.bytes_max.min(bytes_max),
            slow_bytes_max: self.slow_bytes_max.min(bytes_max),
        }
    }
}
