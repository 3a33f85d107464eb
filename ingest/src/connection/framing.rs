//! Request framing: where each request of a connection begins, and whether its head is ambiguous.
//!
//! With both `Content-Length` and `Transfer-Encoding`, two servers can disagree about where a
//! request ends. hyper goes by the encoding and drops the length before a handler can see it, so
//! the raw heads are looked through, in whatever pieces they arrive. A head may come in the same
//! read as the request before it, so bodies are followed, too: by their length, or chunk by chunk.
//! Requests that hyper takes are cut here as hyper cuts them; a request that hyper refuses ends the
//! connection.

/// Bytes of a line that are looked at: the longest field that matters, with a length of any
/// number of digits that is one, and a few bytes for spaces.
const LINE_BYTES: usize = 64;

/// Part of a request that the next byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestPart {
    /// A line of a head.
    Head,
    /// A body or a chunk of which so many bytes are left.
    Bytes { left: u64, then: NextPart },
    /// The line that says how long a chunk is.
    ChunkSize,
    /// A line after the last chunk.
    Trailer,
}

/// Part that follows a run of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextPart {
    Head,
    ChunkSize,
}

/// Follows the requests of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Framing {
    part: RequestPart,
    line: [u8; LINE_BYTES],
    line_bytes: usize,
    /// The head has had a line that is not empty.
    any: bool,
    length: Option<u64>,
    encoded: bool,
    /// Heads that have come to their end.
    heads: u64,
    first_ambiguous: Option<u64>,
}

impl Default for Framing {
    fn default() -> Self {
        Self {
            part: RequestPart::Head,
            line: [0; LINE_BYTES],
            line_bytes: 0,
            any: false,
            length: None,
            encoded: false,
            heads: 0,
            first_ambiguous: None,
        }
    }
}

impl Framing {
    /// Number of the first head with both a length and a transfer encoding; the first head is 1.
    pub const fn first_ambiguous(&self) -> Option<u64> {
        self.first_ambiguous
    }

    /// Returns true if a head has begun and not ended.
    pub fn is_within_head(&self) -> bool {
        self.part == RequestPart::Head && (self.any || self.line_bytes > 0)
    }

    /// Returns true if the next byte is the first of a request.
    pub fn is_between_requests(&self) -> bool {
        self.part == RequestPart::Head && !self.any && self.line_bytes == 0
    }

    /// Follows the next bytes of the connection.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let used = match self.part {
                RequestPart::Bytes { left, then } => self.skip(left, then, bytes.len()),
                RequestPart::Head | RequestPart::ChunkSize | RequestPart::Trailer => {
                    self.take_line(bytes)
                }
            };
            bytes = bytes.get(used..).unwrap_or_default();
        }
    }

    /// Passes over the rest of a body or a chunk; returns how many bytes that were.
    fn skip(&mut self, left: u64, then: NextPart, there: usize) -> usize {
        let used = usize::try_from(left).map_or(there, |left| left.min(there));
        let left = left.saturating_sub(used as u64);
        self.part = match (left, then) {
            (0, NextPart::Head) => RequestPart::Head,
            (0, NextPart::ChunkSize) => RequestPart::ChunkSize,
            _ => RequestPart::Bytes { left, then },
        };
        used
    }

    /// Keeps the beginning of a line, and interprets the line once it is whole; returns how many
    /// bytes were used.
    fn take_line(&mut self, bytes: &[u8]) -> usize {
        let end = memchr::memchr(b'\n', bytes);
        let text = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
        let space = self.line.get_mut(self.line_bytes..).unwrap_or_default();
        let kept = text.len().min(space.len());
        if let (Some(place), Some(text)) = (space.get_mut(..kept), text.get(..kept)) {
            place.copy_from_slice(text);
        }
        self.line_bytes += kept;
        let Some(end) = end else { return bytes.len() };
        let line = self.line;
        let whole = line.get(..self.line_bytes).unwrap_or_default();
        let line = whole.strip_suffix(b"\r").unwrap_or(whole);
        self.line_bytes = 0;
        match self.part {
            RequestPart::Head => self.head_line(line),
            RequestPart::ChunkSize => self.chunk_size(line),
            // hyper takes a line feed alone for a trailer.
            RequestPart::Trailer if whole == b"\r" => self.part = RequestPart::Head,
            RequestPart::Trailer | RequestPart::Bytes { .. } => {}
        }
        end + 1
    }

    fn head_line(&mut self, line: &[u8]) {
        match line.first() {
            // Empty lines before the request line mean nothing, the first one after ends the head.
            None if self.any => self.end_head(),
            None => {}
            Some(b'c' | b'C') => {
                if let Some(value) = field(line, b"content-length:") {
                    // A length that is not a number is refused by hyper; one that is longer than a
                    // line here, by us, as no honest client sends one.
                    self.length = Some(number(value, 10).unwrap_or(0));
                    self.encoded |= line.len() + 1 >= LINE_BYTES;
                }
            }
            Some(b't' | b'T') => self.encoded |= field(line, b"transfer-encoding:").is_some(),
            Some(_) => {}
        }
        self.any |= !line.is_empty();
    }

    fn end_head(&mut self) {
        self.heads += 1;
        if self.encoded && self.length.is_some() && self.first_ambiguous.is_none() {
            self.first_ambiguous = Some(self.heads);
        }
        self.part = match self.length {
            // hyper takes no other encoding than chunked.
            _ if self.encoded => RequestPart::ChunkSize,
            Some(left @ 1..) => RequestPart::Bytes {
                left,
                then: NextPart::Head,
            },
            Some(0) | None => RequestPart::Head,
        };
        (self.any, self.length, self.encoded) = (false, None, false);
    }

    fn chunk_size(&mut self, line: &[u8]) {
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit());
        let digits = line.get(..digits.count()).unwrap_or_default();
        self.part = match number(digits, 16) {
            Some(0) | None => RequestPart::Trailer,
            Some(size) => RequestPart::Bytes {
                left: size.saturating_add(2),
                then: NextPart::ChunkSize,
            },
        };
    }
}

/// Value of a line that has this name and a colon.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, value) = line.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

fn number(text: &[u8], radix: u32) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds a connection's bytes in pieces of every one of some sizes.
    fn follow(text: &str, mut check: impl FnMut(Framing, usize)) {
        for size in [1, 2, 3, 7, 64, text.len()] {
            let mut framing = Framing::default();
            for piece in text.as_bytes().chunks(size) {
                framing.feed(piece);
            }
            check(framing, size);
        }
    }

    #[test]
    fn a_head_with_both_fields_is_noticed_however_it_is_cut() {
        let table = [
            (
                "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
                true,
            ),
            ("transfer-encoding: chunked\nCONTENT-LENGTH: 3\n\n", true),
            ("Content-Length:3\r\nTransfer-Encoding:x\r\n\r\n", true),
            (
                "Content-Length: 0000000000000000000000000000000000000000000000000000000005\r\n\r\n",
                true,
            ),
            (
                "Content-Length: 30\r\n\r\nTransfer-Encoding: chunked\r\n",
                false,
            ),
            (
                "X: Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
                false,
            ),
            (
                "Content-Lengths: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
                false,
            ),
        ];
        for (fields, both) in table {
            for first in ["POST / HTTP/1.1\r\n", "\r\n\nPOST / HTTP/1.1\n"] {
                follow(&format!("{first}{fields}"), |framing, size| {
                    let expected = both.then_some(1);
                    assert_eq!(framing.first_ambiguous(), expected, "{fields} by {size}");
                });
            }
        }
    }

    #[test]
    fn a_head_is_found_behind_any_body() {
        let bodies = [
            "\r\n",
            "Content-Length: 0\r\n\r\n",
            "Content-Length: \t 5 \r\n\r\n\r\n\r\n\r",
            "Content-Length: 00000000000000000005\r\n\r\n12345",
            "Content-Length: 5\r\nContent-Length: 5\r\n\r\n12345",
            "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n5;a=b\r\n\r\n\r\n\r\r\n00\r\nX: y\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\nA \r\n0123456789\r\n000;\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n0\r\n\nX: y\r\n\r\n",
        ];
        for body in bodies {
            let ambiguous =
                "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n";
            let text = format!("POST / HTTP/1.1\r\nX: {}\r\n{body}", "y".repeat(100));
            follow(&text, |framing, size| {
                assert_eq!(framing.heads, 1, "{body:?} by {size}");
                assert!(!framing.is_within_head(), "{body:?} by {size}");
            });
            follow(&format!("{text}{ambiguous}"), |framing, size| {
                assert_eq!(framing.first_ambiguous(), Some(2), "{body:?} by {size}");
            });
            follow(&format!("{text}GET"), |framing, size| {
                assert!(framing.is_within_head(), "{body:?} by {size}");
            });
        }
    }
}
