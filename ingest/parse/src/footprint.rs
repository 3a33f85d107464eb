//! Footprint of a body: the memory that parsing it may take, known before.

use crate::context::Protocol;
use crate::splice::spliced_bytes_max;

/// Bytes that the index takes for a mark: its offset and its character.
const MARK_BYTES: usize = 5;
/// Bytes that the index takes for an escape.
const ESCAPE_BYTES: usize = 4;
/// Bytes for an event beside its text: its spans, and the fields that rows have besides.
const EVENT_BYTES: usize = 512;
/// Bytes of memory for a byte that is added to rows: they may double as they grow.
const GROWTH: usize = 2;
/// Copies of the body: its rows, those of persons, and one for simd-json.
const COPIES: usize = 3;
/// Bytes that are counted together, so that a count of them fits a byte.
const CHUNK_BYTES: usize = 255;

/// Counts over a body, made in a fraction of the time that parsing takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    body_bytes: usize,
    /// Marks that the index may have, at most.
    pub(crate) marks_max: usize,
    /// Escapes, at most.
    pub(crate) escapes_max: usize,
}

impl Footprint {
    /// Counts what is in a body, which need not be JSON.
    #[must_use]
    pub fn of(body: &[u8]) -> Self {
        let behind = body.get(1..).unwrap_or_default();
        // A number or a word begins behind something else.
        let begins = |(before, byte): (&u8, &u8)| is_between(*before) && !is_between(*byte);
        Self {
            body_bytes: body.len(),
            marks_max: 1 + count(body, is_structure) + count_pairs(body, behind, begins),
            escapes_max: count(body, |byte| byte == b'\\'),
        }
    }

    /// Bytes that a parser takes at most for a body of at most so many events, beside the body
    /// itself.
    #[must_use]
    pub fn bytes_max(&self, events_max: usize, protocol: Protocol<'_>) -> usize {
        let event_bytes = match protocol {
            Protocol::V0 => EVENT_BYTES,
            Protocol::V1 { sdk_info, .. } => EVENT_BYTES + GROWTH * spliced_bytes_max(sdk_info),
        };
        COPIES * self.body_bytes
            + MARK_BYTES * self.marks_max
            + ESCAPE_BYTES * self.escapes_max
            + event_bytes * self.marks_max.min(events_max)
    }
}

const fn is_structure(byte: u8) -> bool {
    matches!(byte, b'{' | b'}' | b'[' | b']' | b':' | b',' | b'"')
}

/// Returns true if a byte may stand between values.
const fn is_between(byte: u8) -> bool {
    is_structure(byte) || crate::characters::is_white(byte)
}

/// Counts in chunks, which the compiler does by SIMD.
fn count(body: &[u8], is_counted: impl Fn(u8) -> bool) -> usize {
    let of_chunk = |chunk: &[u8]| {
        let counted = chunk.iter().map(|byte| u8::from(is_counted(*byte)));
        usize::from(counted.sum::<u8>())
    };
    body.chunks(CHUNK_BYTES).map(of_chunk).sum()
}

fn count_pairs(one: &[u8], other: &[u8], is_counted: impl Fn((&u8, &u8)) -> bool) -> usize {
    let chunks = one.chunks(CHUNK_BYTES).zip(other.chunks(CHUNK_BYTES));
    let of_chunks = |(one, other): (&[u8], &[u8])| {
        let counted = one.iter().zip(other).map(|pair| u8::from(is_counted(pair)));
        usize::from(counted.sum::<u8>())
    };
    chunks.map(of_chunks).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Index;
    use proptest::prelude::*;

    /// Texts that are mostly structure, some of which can be indexed.
    fn texts() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "[", "]", "{", "}", ",", ":", "1", "\"", "\"a b\"", "\"\\n\"", " ", "true", "\\\\", "x",
        ]);
        prop::collection::vec(piece, 0..600).prop_map(|pieces| format!("[{}", pieces.concat()))
    }

    proptest! {
        #[test]
        fn no_index_is_larger_than_the_footprint(text in texts()) {
            let footprint = Footprint::of(text.as_bytes());
            for mut index in [Index::portable(), Index::default()] {
                if index.build(text.as_bytes()).is_ok() {
                    prop_assert!(index.marks().len() <= footprint.marks_max);
                    prop_assert!(index.escapes().len() <= footprint.escapes_max);
                }
            }
        }
    }

    #[test]
    fn an_event_has_space_for_the_head_that_came_and_for_no_other() {
        let body = "{},".repeat(1_000);
        let bytes_max = |protocol| Footprint::of(body.as_bytes()).bytes_max(1_000, protocol);
        let without = bytes_max(Protocol::V0);
        let long = format!("{0}/{0}", "\"".repeat(1_000));
        for (sdk_info, spliced) in [
            (None, 0),
            (Some("a/1"), 90),
            (Some("posthog-python/7.91.1"), 126),
            (Some(long.as_str()), 596),
        ] {
            let protocol = Protocol::V1 {
                key: "phc_test",
                sent_at: None,
                sdk_info,
            };
            let bytes = bytes_max(protocol) - without;
            assert_eq!(bytes, GROWTH * spliced * 1_000, "{sdk_info:?}");
        }
    }

    #[test]
    fn the_footprint_is_bounded_per_byte() {
        for piece in [
            "[",
            "{},",
            "1,",
            "1 ",
            "NaN,",
            "\\\\",
            "\"\",",
            "{\"\":",
            " ",
            "\"a\":\"b\",",
        ] {
            let body = piece.repeat(4 << 20);
            let bytes_max = Footprint::of(body.as_bytes()).bytes_max(50_000, Protocol::V0);
            let fixed = EVENT_BYTES * 50_000;
            assert!(
                bytes_max - fixed.min(bytes_max) <= 10 * body.len(),
                "{piece}: {bytes_max}"
            );
        }
    }
}
