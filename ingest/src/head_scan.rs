//! Two header fields that must not meet, looked for in the bytes as they come.
//!
//! With both `Content-Length` and `Transfer-Encoding`, two servers can disagree about where a
//! request ends. hyper goes by the encoding and drops the length before a handler can see it, so
//! the raw head is looked through, whatever pieces it arrives in.

/// Bytes of a head's line that are looked at: the longest name that matters, and its colon.
const LINE_BYTES: usize = "transfer-encoding:".len();

/// Looks through a raw head for the two fields that must not meet.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadScan {
    line: [u8; LINE_BYTES],
    line_bytes: usize,
    any: bool,
    done: bool,
    length: bool,
    encoding: bool,
}

impl HeadScan {
    /// Whether the head has both a length and a transfer encoding.
    pub const fn is_ambiguous(&self) -> bool {
        self.length && self.encoding
    }

    /// The next bytes of the connection; what follows the head is passed over.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !self.done {
            let end = memchr::memchr(b'\n', bytes);
            self.take(bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default());
            let Some(end) = end else { return };
            self.end_line();
            bytes = bytes.get(end + 1..).unwrap_or_default();
        }
    }

    /// Keeps the beginning of the line.
    fn take(&mut self, bytes: &[u8]) {
        let room = self.line.get_mut(self.line_bytes..).unwrap_or_default();
        for (place, byte) in room.iter_mut().zip(bytes) {
            *place = *byte;
            self.line_bytes += 1;
        }
    }

    fn end_line(&mut self) {
        let line = self.line.get(..self.line_bytes).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match line.first() {
            // Empty lines before the request line mean nothing, the first one after ends the head.
            None => self.done = self.any,
            Some(b'c' | b'C') => self.length |= names(line, b"content-length:"),
            Some(b't' | b'T') => self.encoding |= names(line, b"transfer-encoding:"),
            Some(_) => {}
        }
        self.any |= !line.is_empty();
        self.line_bytes = 0;
    }
}

fn names(line: &[u8], name: &[u8]) -> bool {
    line.get(..name.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_with_both_fields_is_noticed_however_it_is_cut() {
        let table = [
            (
                "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
                true,
            ),
            (
                "POST / HTTP/1.1\ntransfer-encoding: chunked\nCONTENT-LENGTH: 3\n\n",
                true,
            ),
            (
                "\r\nPOST / HTTP/1.1\r\nContent-Length:3\r\nTransfer-Encoding:x\r\n\r\n",
                true,
            ),
            (
                "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nTransfer-Encoding: chunked\r\n",
                false,
            ),
            (
                "POST / HTTP/1.1\r\nX: Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
                false,
            ),
            (
                "POST / HTTP/1.1\r\nContent-Lengths: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
                false,
            ),
        ];
        for (head, both) in table {
            for size in [1, 2, 3, 7, head.len()] {
                let mut scan = HeadScan::default();
                for piece in head.as_bytes().chunks(size) {
                    scan.feed(piece);
                }
                assert_eq!(scan.is_ambiguous(), both, "{head} by {size}");
            }
        }
    }
}
