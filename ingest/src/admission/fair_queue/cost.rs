//! Cost of a request to its core.

use millrace_encoding::ON_CORE_BYTES_MAX;

/// Bytes that a request is counted for beside its body: its head has to be read, and answered,
/// however small it is. No request is counted for nothing, or its flow would have a turn without an
/// end.
pub const REQUEST_BYTES: usize = 4 << 10;
/// Bytes that a request may keep its core busy with before it counts as long.
pub const LONG_BYTES_MIN: usize = 256 << 10;
/// Decoded bytes for each byte of an ordinary compressed batch, and then some.
const USUAL_EXPANSION: usize = 16;
/// Decoded bytes for each byte sent, at most: those of Deflate. Other encodings are limited to
/// less.
const EXPANSION_MAX: usize = 1 << 10;

/// Cost of a request to its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Bytes that the request holds of the queue's capacity: those sent.
    pub held_bytes: usize,
    /// Bytes by which flows take turns: those that the core usually deals with.
    pub turn_bytes: usize,
    /// Bytes that the core may have to deal with in one go.
    pub core_bytes_max: usize,
}

impl Cost {
    /// Cost of a body of so many bytes that is not encoded; long ones are parsed beside the core.
    pub const fn plain(bytes: usize) -> Self {
        Self {
            held_bytes: bytes + REQUEST_BYTES,
            turn_bytes: bytes + REQUEST_BYTES,
            core_bytes_max: match bytes {
                ..=ON_CORE_BYTES_MAX => bytes,
                _ => REQUEST_BYTES,
            },
        }
    }

    /// Cost of a body of so many bytes as sent, of which the core decodes and parses
    /// `decoded_bytes_max` at most; 0 for one that is decoded beside it.
    pub fn encoded(sent_bytes: usize, decoded_bytes_max: usize) -> Self {
        let decoded = |expansion| {
            let decoded = sent_bytes.saturating_mul(expansion);
            decoded.min(decoded_bytes_max)
        };
        Self {
            held_bytes: sent_bytes + REQUEST_BYTES,
            turn_bytes: sent_bytes.max(decoded(USUAL_EXPANSION)) + REQUEST_BYTES,
            core_bytes_max: decoded(EXPANSION_MAX),
        }
    }

    /// Returns true if the core may be busy with the request for milliseconds.
    pub const fn is_long(self) -> bool {
        self.core_bytes_max > LONG_BYTES_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_cost_what_a_core_decodes_and_parses_of_them() {
        const KIB: usize = 1 << 10;
        let on_core = ON_CORE_BYTES_MAX;
        // Cost, and KiB: held, for turns, at most; whether it is long.
        for (cost, expected) in [
            (Cost::plain(100 * KIB), (100, 100, 100, false)),
            (Cost::plain(400 * KIB), (400, 400, 400, true)),
            // Parsed beside the core.
            (Cost::plain(2_048 * KIB), (2_048, 2_048, 4, false)),
            (Cost::encoded(128, on_core), (0, 2, 128, false)),
            (Cost::encoded(10 * KIB, on_core), (10, 160, 512, true)),
            // In a slow encoding.
            (Cost::encoded(10 * KIB, 256 * KIB), (10, 160, 256, false)),
            // Decoded beside the core.
            (Cost::encoded(600 * KIB, 0), (600, 600, 0, false)),
        ] {
            let got = (
                (cost.held_bytes - REQUEST_BYTES) / KIB,
                (cost.turn_bytes - REQUEST_BYTES) / KIB,
                cost.core_bytes_max / KIB,
                cost.is_long(),
            );
            assert_eq!(got, expected, "{cost:?}");
        }
    }
}
