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

use crate::Encoding;
use http::StatusCode;
use millrace_parse::{ApiError, ErrorType};

/// Decoded bytes for each byte sent of a body whose key is not known yet: these take less than 1 ms
/// of a core and 1 MiB for each kB sent.
const UNKNOWN_RATIO_MAX: usize = 40;
/// Decoded bytes for each byte sent of a body in a slow encoding whose key is not known yet.
const UNKNOWN_SLOW_RATIO_MAX: usize = 16;
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

/// Limits of one body's expansion.
#[derive(Clone, Copy, Debug)]
pub struct Expansion {
    sent_bytes: usize,
    decoded_bytes_max: usize,
}

/// Limits of decoded bytes, by encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Decoded bytes of encodings that are not slow.
    pub bytes_max: usize,
    /// Decoded bytes of Brotli and LZString.
    pub slow_bytes_max: usize,
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
    pub fn less(self, bytes: usize, encoding: Encoding) -> Self {
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
        if !is_counted || bytes_max <= UNKNOWN_BYTES_MAX {
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT_BYTES: usize = 100 << 20;

    #[test]
    fn a_body_may_decode_to_little_before_its_key_is_known_and_to_a_bounded_ratio_after() {
        const KIB: usize = 1 << 10;
        const MIB: usize = 1 << 20;
        // Sent; without a known key; with one; both in a slow encoding.
        let table = [
            (0, 40 * KIB, 4 * MIB, 16 * KIB, MIB),
            (89, 40 * KIB, 4 * MIB, 16 * KIB, MIB),
            (KIB, 40 * KIB, 4 * MIB, 16 * KIB, MIB),
            (64 * KIB, 40 * 64 * KIB, 200 * 64 * KIB, MIB, 4 * MIB),
            (20 * MIB, 16 * MIB, 100 * MIB, 16 * MIB, 100 * MIB),
        ];
        for (sent, unknown, known, unknown_slow, known_slow) in table {
            let expansion = Expansion::of(sent, LIMIT_BYTES);
            let expected = [(false, unknown, unknown_slow), (true, known, known_slow)];
            for (is_key_known, bytes_max, slow_bytes_max) in expected {
                let limits = DecodeLimits {
                    bytes_max,
                    slow_bytes_max,
                };
                assert_eq!(expansion.limits(is_key_known), limits, "{sent}");
                for (encoding, bytes_max) in [
                    (Encoding::Gzip, bytes_max),
                    (Encoding::Deflate, bytes_max),
                    (Encoding::Zstd, bytes_max),
                    (Encoding::Base64, bytes_max),
                    (Encoding::Brotli, slow_bytes_max),
                    (Encoding::Lz64, slow_bytes_max),
                ] {
                    assert_eq!(limits.of(encoding), bytes_max, "{encoding:?}");
                    let on_core = limits.on_core(sent).of(encoding);
                    let on_core_max = match encoding.is_slow() {
                        true if sent > 16 * KIB => 0,
                        true => 256 * KIB,
                        // Nobody's body of up to 64 KiB is decoded twice.
                        false => (sent.min(64 * KIB) * 40).max(512 * KIB),
                    };
                    assert_eq!(on_core, bytes_max.min(on_core_max), "{encoding:?}");
                }
            }
        }
    }

    #[test]
    fn a_large_body_is_likely_to_decode_to_what_it_says_or_to_forty_times_what_was_sent() {
        const MIB: usize = 1 << 20;
        let (gzip, zstd, brotli) = (Encoding::Gzip, Encoding::Zstd, Encoding::Brotli);
        // Sent; true for a known key; the size that it says; the size that is likely.
        let table = [
            (gzip, MIB, true, Some(12 * MIB), Some(12 * MIB + 1)),
            (gzip, MIB, true, Some(MIB - 1), Some(40 * MIB)),
            (gzip, MIB, true, None, Some(40 * MIB)),
            (zstd, MIB, true, Some(12 * MIB), Some(12 * MIB + 1)),
            // All that is allowed at once: by what it says, and where that is little more.
            (gzip, MIB, true, Some(41 * MIB), None),
            (gzip, 3 * MIB, true, None, None),
            (gzip, 3 * MIB, true, Some(30 * MIB), Some(30 * MIB + 1)),
            (gzip, 3 * MIB, true, Some(LIMIT_BYTES), None),
            (gzip, MIB / 16, true, None, None),
            (gzip, MIB, false, Some(12 * MIB), None),
            (brotli, MIB, true, None, None),
        ];
        for (encoding, sent, is_key_known, said, expected) in table {
            let expansion = Expansion::of(sent, LIMIT_BYTES);
            let limits = expansion.limits(is_key_known);
            let likely = expansion.likely_bytes_max(encoding, limits, said);
            assert_eq!(likely, expected, "{encoding:?} {sent} {said:?}");
        }
    }

    #[test]
    fn gzip_and_zstd_say_how_much_they_decode_to() {
        let plain = [b' '; 1_000];
        let zstd = zstd::bulk::compress(&plain, 3).unwrap();
        let gzip = [&[0x1f_u8, 0x8b, 8][..], &1_000_u32.to_le_bytes()].concat();
        assert_eq!(said_bytes(Encoding::Zstd, &zstd), Some(1_000));
        assert_eq!(said_bytes(Encoding::Gzip, &gzip), Some(1_000));
        for encoding in [Encoding::Zstd, Encoding::Gzip, Encoding::Deflate] {
            assert_eq!(said_bytes(encoding, b"{}"), None, "{encoding:?}");
        }
    }

    #[test]
    fn the_output_of_one_part_is_taken_from_the_limits_of_the_next() {
        let limits = DecodeLimits {
            bytes_max: 100,
            slow_bytes_max: 40,
        };
        let table = [
            (Encoding::Gzip, 30, (70, 40)),
            (Encoding::Identity, 80, (20, 20)),
            (Encoding::Brotli, 30, (70, 10)),
            (Encoding::Lz64, 50, (50, 0)),
            (Encoding::Gzip, 101, (0, 0)),
        ];
        for (encoding, bytes, (bytes_max, slow_bytes_max)) in table {
            let left = DecodeLimits {
                bytes_max,
                slow_bytes_max,
            };
            assert_eq!(limits.less(bytes, encoding), left, "{encoding:?} {bytes}");
        }
    }

    #[test]
    fn a_refusal_says_which_limit_it_is_and_what_to_do() {
        let fewer = "Send fewer events per request.";
        let earlier = "Put `api_key` before the events, or send fewer events per request.";
        let table = [
            (100, false, "body_too_complex", earlier),
            (100, true, "body_too_complex", fewer),
            (1 << 20, true, "payload_too_large", fewer),
            (1 << 20, false, "body_too_complex", earlier),
            (2 << 20, false, "body_too_complex", earlier),
        ];
        for (sent, is_key_known, code, what_to_do) in table {
            let expansion = Expansion::of(sent, LIMIT_BYTES);
            let error = expansion.refusal(Encoding::Gzip, is_key_known);
            assert_eq!((error.status.as_u16(), error.code), (413, code), "{sent}");
            assert!(error.detail.ends_with(what_to_do), "{}", error.detail);
        }
        for encoding in [Encoding::Brotli, Encoding::Lz64] {
            let slow = Expansion::of(100, LIMIT_BYTES).refusal(encoding, true);
            assert!(slow.detail.contains("64 times"), "{}", slow.detail);
        }
    }
}
