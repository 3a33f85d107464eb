//! Holds back the end of an answer until it is known not to be an error.
//!
//! A query that fails after its first rows has answered 200 already. The error comes behind the
//! rows: since 25.11 between markers, before that as bare text; the connection is broken then, or
//! not. The last bytes are therefore kept until the answer has ended. The `clickhouse` crate looks
//! for the error within one piece only; the network cuts anywhere.
//!
//! ```text
//! \r\n__exception__\r\n<tag>\r\nCode: …\n<length> <tag>\r\n__exception__\r\n
//! ```

use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;

/// Bytes that are held back: more than the longest message (16 KiB) with its markers.
const TAIL_BYTES: usize = 20 << 10;
const MARKER: &str = "\r\n__exception__\r\n";

/// Pieces that are held back.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    pieces: VecDeque<Bytes>,
    bytes: usize,
}

impl Tail {
    pub(crate) fn push(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        self.pieces.push_back(piece);
    }

    /// Returns the oldest piece, if enough bytes follow it.
    pub(crate) fn release(&mut self) -> Option<Bytes> {
        let first = self.pieces.front()?;
        if self.bytes - first.len() < TAIL_BYTES {
            return None;
        }
        self.pop()
    }

    /// Returns the oldest piece, once the answer has ended without an error.
    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        let first = self.pieces.pop_front()?;
        self.bytes -= first.len();
        Some(first)
    }

    /// Returns the error that the answer ends with.
    pub(crate) fn exception(&self) -> Option<String> {
        let mut wanting = TAIL_BYTES.min(self.bytes);
        let mut last = VecDeque::new();
        for piece in self.pieces.iter().rev() {
            let from = piece.len().saturating_sub(wanting);
            last.push_front(piece.slice(from..));
            wanting -= piece.len() - from;
        }
        let mut end = BytesMut::new();
        last.iter().for_each(|piece| end.extend_from_slice(piece));
        exception_at_end(&String::from_utf8_lossy(&end))
    }
}

/// Returns the error that a text ends with, behind its rows.
pub(crate) fn exception_at_end(end: &str) -> Option<String> {
    marked(end).or_else(|| bare(end))
}

/// Parses an error between markers with one tag.
fn marked(end: &str) -> Option<String> {
    let end = end.strip_suffix(MARKER)?;
    let (before, tag) = end.rsplit_once(' ')?;
    let (_, frame) = before.rsplit_once(&format!("{MARKER}{tag}\r\n"))?;
    let (message, _length) = frame.rsplit_once('\n')?;
    Some(message.trim().to_owned())
}

/// Parses an error as older servers append it. Rows never end like that: in every format they end
/// with a bracket, a quote, a number or bytes that are no text.
fn bare(end: &str) -> Option<String> {
    let end = end.strip_suffix("))\n")?;
    let at = end.rfind("Code: ")?;
    let message = end.get(at..)?;
    let is_exception = message.contains("DB::") && message.contains("Exception: ");
    is_exception.then(|| format!("{message}))"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKED: &str = "{\"a\":1}\n\r\n__exception__\r\nrnywyenlaeqynhmu\r\nCode: 159. DB::Exception: \
                          Timeout exceeded. (TIMEOUT_EXCEEDED) (version 26.7.3.1 (official build))\n\
                          94 rnywyenlaeqynhmu\r\n__exception__\r\n";
    const BARE: &str = "{\"a\":1}\nCode: 241. DB::Exception: Memory limit. (MEMORY_LIMIT_EXCEEDED) \
                        (version 24.3.1.1 (official build))\n";

    fn cut(text: &str, at: usize) -> Tail {
        let mut tail = Tail::default();
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        tail.push(bytes.slice(..at));
        tail.push(bytes.slice(at..));
        tail
    }

    #[test]
    fn an_error_behind_rows_is_found_with_any_cut_between_pieces() {
        for (text, code) in [(MARKED, "Code: 159."), (BARE, "Code: 241.")] {
            for at in 0..=text.len() {
                let found = cut(text, at).exception().unwrap();
                assert!(found.starts_with(code), "{at}: {found}");
                assert!(found.ends_with("(official build))"), "{at}: {found}");
            }
        }
    }

    #[test]
    fn rows_that_look_like_errors_are_rows() {
        let rows = [
            "",
            "{\"a\":\"Code: 1. DB::Exception: x))\"}\n",
            "{\"a\":\"__exception__\"}\n",
            "a,b\r\n1,\"\r\n__exception__\r\ntag\r\nCode: 1. DB::Exception: x\n5 tag\r\n__exception__\r\n\"\r\n",
            "PAR1",
        ];
        for text in rows {
            assert_eq!(cut(text, text.len() / 2).exception(), None, "{text}");
        }
    }

    #[test]
    fn all_but_the_end_is_released() {
        let mut tail = Tail::default();
        let mut out = 0;
        for _ in 0..1_000 {
            tail.push(Bytes::from_static(&[b'x'; 1_000]));
            while let Some(piece) = tail.release() {
                out += piece.len();
            }
            assert!(tail.bytes < TAIL_BYTES + 1_000);
        }
        while let Some(piece) = tail.pop() {
            out += piece.len();
        }
        assert_eq!(out, 1_000_000);
    }
}
