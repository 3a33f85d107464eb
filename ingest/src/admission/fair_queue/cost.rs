//! Cost of a request to its core.

use millrace_encoding::ON_CORE_BYTES_MAX;

/// Bytes that a request is counted for beside its body: its head has to be read, and answered,
/// however small it is. No request is counted for nothing, or its flow would have a turn without an
/// end.
pub const REQUEST_BYTES: usize = 4 << 10;
/// Bytes that a request may keep its core busy with before it counts as long.
const LONG_BYTES: usize = 1 << 20;
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
    /// Cost of a body of so many bytes as sent.
    pub fn of(sent_bytes: usize, may_be_encoded: bool) -> Self {
        let decoded = |expansion| match may_be_encoded {
            true => sent_bytes.max(sent_bytes.saturating_mul(expansion).min(ON_CORE_BYTES_MAX)),
            false => sent_bytes,
        };
        Self {
            held_bytes: sent_bytes + REQUEST_BYTES,
            turn_bytes: decoded(USUAL_EXPANSION) + REQUEST_BYTES,
            core_bytes_max: decoded(EXPANSION_MAX) + REQUEST_BYTES,
        }
    }

    /// Returns true if the core may be busy with the request for milliseconds.
    pub const fn is_long(self) -> bool {
        self.core_bytes_max > LONG_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_bodies_cost_what_they_may_decode_to_on_a_core() {
        let kib = |bytes: usize| (bytes - REQUEST_BYTES) >> 10;
        // Bytes sent, whether encoded, and KiB: held, for turns, at most; whether it is long.
        for (sent, encoded, expected) in [
            (100 << 10, false, (100, 100, 100, false)),
            (2 << 20, false, (2_048, 2_048, 2_048, true)),
            (512, true, (0, 8, 512, false)),
            (10 << 10, true, (10, 160, 4_096, true)),
            (8 << 20, true, (8_192, 8_192, 8_192, true)),
        ] {
            let cost = Cost::of(sent, encoded);
            let got = (
                kib(cost.held_bytes),
                kib(cost.turn_bytes),
                kib(cost.core_bytes_max),
                cost.is_long(),
            );
            assert_eq!(got, expected, "{sent} {encoded}");
        }
    }
}
