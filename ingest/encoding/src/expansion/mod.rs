//! Limits of how much a body may decode to: little until a known key was seen, and never many times
//! what was sent.
//!
//! Some hundred bytes can stand for 100 MiB, none of which is worth a core's time or memory before
//! a known project turns out to have sent it. Real batches decode to 5 to 40 times what was sent,
//! and keys, which are random, make even equal events cost some 20 bytes each.
//!
//! Slow encodings have limits of their own, as a byte of theirs costs three times as much: a stream
//! of Brotli can be made of copies of two bytes that take no bit, each of which costs as much as a
//! hundred bytes elsewhere, and LZString's text is written a character at a time, as UTF-16 and
//! then as UTF-8.

mod decode_limits;
#[cfg(test)]
mod tests;

pub use decode_limits::{DecodeLimits, ON_CORE_BYTES_MAX, ON_CORE_SENT_BYTES_MAX};
pub(crate) use decode_limits::{ON_CORE_SLOW_BYTES_MAX, ON_CORE_SLOW_SENT_BYTES_MAX};

use crate::Encoding;
use decode_limits::{UNKNOWN_RATIO_MAX, UNKNOWN_SLOW_RATIO_MAX};
use http::StatusCode;
use millrace_parse::{ApiError, ErrorType};

/// Bytes that a body counts for at least before its key is known.
const UNKNOWN_SENT_BYTES_MIN: usize = 1 << 10;
/// Bytes that a body without a known key may decode to, however much was sent.
const UNKNOWN_BYTES_MAX: usize = 16 << 20;
/// Decoded bytes for each byte sent of a body with a known key, above [`KNOWN_BYTES_MIN`].
const KNOWN_RATIO_MAX: usize = 200;
/// Bytes that a body with a known key may decode to, however short it was sent: heartbeats and
/// metrics that are all alike are sent, too.
const KNOWN_BYTES_MIN: usize = 4 << 20;
/// Ratio and minimum of a body with a known key in a slow encoding.
const KNOWN_SLOW_RATIO_MAX: usize = 64;
const KNOWN_SLOW_BYTES_MIN: usize = 1 << 20;
/// Bytes in which a key is looked for, however short a body was sent, and however long.
const SEARCHED_BYTES_MIN: usize = 512 << 10;
const SEARCHED_BYTES_MAX: usize = 16 << 20;

/// Limits of one body's expansion.
#[derive(Clone, Copy, Debug)]
pub struct Expansion {
    sent_bytes: usize,
    decoded_bytes_max: usize,
}

/// Bytes that a body decodes to, as it says itself; gzip says so of its last member, and zstd of
/// its first frame.
fn said_bytes(encoding: Encoding, body: &[u8]) -> Option<usize> {
    match encoding {
        Encoding::Gzip => {
            let size = body.last_chunk::<4>()?;
            usize::try_from(u32::from_le_bytes(*size)).ok()
        }
        Encoding::Zstd => {
            let size = zstd::zstd_safe::get_frame_content_size(body).ok()??;
            usize::try_from(size).ok()
        }
        _ => None,
    }
}

impl Expansion {
    /// Limits of a body of `sent_bytes`, where none may decode to more than `decoded_bytes_max`.
    #[must_use]
    pub const fn of(sent_bytes: usize, decoded_bytes_max: usize) -> Self {
        Self {
            sent_bytes,
            decoded_bytes_max,
        }
    }

    /// Bytes that the body may decode to.
    #[must_use]
    pub fn limits(self, is_key_known: bool) -> DecodeLimits {
        let bytes_max = |unknown_ratio: usize, known_ratio: usize, known_bytes: usize| {
            let bytes_max = if is_key_known {
                let sent = self.sent_bytes.saturating_mul(known_ratio);
                sent.max(known_bytes)
            } else {
                let sent = self.sent_bytes.max(UNKNOWN_SENT_BYTES_MIN);
                sent.saturating_mul(unknown_ratio).min(UNKNOWN_BYTES_MAX)
            };
            bytes_max.min(self.decoded_bytes_max)
        };
        DecodeLimits {
            bytes_max: bytes_max(UNKNOWN_RATIO_MAX, KNOWN_RATIO_MAX, KNOWN_BYTES_MIN),
            slow_bytes_max: bytes_max(
                UNKNOWN_SLOW_RATIO_MAX,
                KNOWN_SLOW_RATIO_MAX,
                KNOWN_SLOW_BYTES_MIN,
            ),
        }
    }

    /// Bytes that a body in `encoding` decodes to at most, in all likelihood; `None` where it is to
    /// have all of its `limits` at once. `said` is the size that it names itself.
    ///
    /// Nothing has to be as it says. Who names less than 40 times what was sent, and decodes to
    /// more, has that much decoded twice: a fifth of what is allowed.
    fn likely_bytes_max(
        self,
        encoding: Encoding,
        limits: DecodeLimits,
        said: Option<usize>,
    ) -> Option<usize> {
        let bytes_max = limits.of(encoding);
        let is_counted = matches!(
            encoding,
            Encoding::Gzip | Encoding::Deflate | Encoding::Zstd
        );
        if !is_counted || bytes_max <= self.limits(false).of(encoding) {
            return None;
        }
        let usual = self.sent_bytes.saturating_mul(UNKNOWN_RATIO_MAX);
        let likely = match said {
            Some(said) if said > usual => return None,
            // Less than was sent is the size of the last of several members.
            Some(said) if said >= self.sent_bytes => said + 1,
            _ => usual,
        };
        Some(likely).filter(|likely| *likely < bytes_max)
    }

    /// Limits of the next try, of a `body` in `encoding` that was too large for those `tried`: what
    /// it is likely to decode to, and then all of its `limits`, the memory of which would do for
    /// many other bodies.
    #[must_use]
    pub fn next_limits(
        self,
        encoding: Encoding,
        body: &[u8],
        tried: DecodeLimits,
        limits: DecodeLimits,
    ) -> DecodeLimits {
        let said = said_bytes(encoding, body);
        match self.likely_bytes_max(encoding, limits, said) {
            Some(likely) if likely > tried.of(encoding) => limits.at_most(likely),
            _ => limits,
        }
    }

    /// Bytes in which a key is looked for, as nothing of them is kept; `None` for encodings that
    /// cost too much to decode further than unknown keys may.
    #[must_use]
    pub fn searched_bytes_max(self, encoding: Encoding) -> Option<usize> {
        if !matches!(encoding, Encoding::Gzip | Encoding::Deflate) {
            return None;
        }
        let sent = self.sent_bytes.saturating_mul(KNOWN_RATIO_MAX);
        let searched = sent.clamp(SEARCHED_BYTES_MIN, SEARCHED_BYTES_MAX);
        Some(searched.min(self.decoded_bytes_max))
    }

    /// Builds the refusal of a body that decodes to more than its [`limits`](Self::limits).
    #[must_use]
    pub fn refusal(self, encoding: Encoding, is_key_known: bool) -> ApiError {
        let bytes_max = self.limits(is_key_known).of(encoding);
        let (ratio_max, known_bytes) = if encoding.is_slow() {
            (KNOWN_SLOW_RATIO_MAX, KNOWN_SLOW_BYTES_MIN)
        } else {
            (KNOWN_RATIO_MAX, KNOWN_BYTES_MIN)
        };
        let (code, detail) = if bytes_max == self.decoded_bytes_max {
            (
                "payload_too_large",
                "The body is too large after decompression. Send fewer events per request."
                    .to_owned(),
            )
        } else if is_key_known {
            (
                "body_too_complex",
                format!(
                    "The body decodes to more than {ratio_max} times what was sent, and to more than {known_bytes} bytes. Send fewer events per request."
                ),
            )
        } else {
            (
                "body_too_complex",
                format!(
                    "The body decodes to more than {bytes_max} bytes, and no project key that is known was found in the first {} of them. Put `api_key` before the events, or send fewer events per request.",
                    self.searched_bytes_max(encoding).unwrap_or(bytes_max)
                ),
            )
        };
        ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            ErrorType::InvalidRequest,
            code,
            detail,
        )
    }
}
