//! Vectors of request smuggling: requests that two servers could cut differently.
//!
//! Each has a second request hidden where a server that cuts it wrongly would take it for one:
//! [`HIDDEN`], whose answer names itself, so that no reading of the bytes goes unnoticed.

use std::io::{ErrorKind, Read, Write};

/// Request that must never be answered where it is a part of another request's body.
pub const HIDDEN: &str = "GET /array/hidden/config HTTP/1.1\r\nHost: t\r\n\r\n";

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// 200; the next request on the connection is answered for itself.
    Taken,
    /// 200, and the connection is closed.
    Last,
    /// 400, or an answer with another 4xx; the connection is closed and nothing after it is read.
    Refused,
    /// The connection is closed without a response.
    Dropped,
}
use Outcome::{Dropped, Last, Refused, Taken};

/// Vector: one request and its outcome.
pub struct Vector {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    pub outcome: Outcome,
}

/// POSTs with a body, both as they are here. `#` in the body stands for [`HIDDEN`], `#n` for its
/// length, `#x` for its length in hex.
#[rustfmt::skip]
const POSTS: &[(&str, &str, &str, Outcome)] = &[
    // Two lengths of one body.
    ("CL, TE", "Content-Length: #n\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n#", Refused),
    ("TE, CL", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n#", Refused),
    ("CL, TE in other cases", "cONTENT-lENGTH: 5\r\ntRANSFER-eNCODING: cHUNKED\r\n", "0\r\n\r\n#", Refused),
    ("CL, TE behind a bare LF", "Content-Length: 5\r\nX: y\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n#", Refused),
    ("CL, TE, CL", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n#", Refused),
    ("CL of 0, TE", "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n#", Refused),
    ("CL, CL that differ", "Content-Length: 0\r\nContent-Length: #n\r\n", "#", Refused),
    ("CL, CL that agree", "Content-Length: #n\r\nContent-Length: #n\r\n", "#", Taken),
    ("a list of CLs", "Content-Length: #n, #n\r\n", "#", Refused),
    ("CL with a plus", "Content-Length: +#n\r\n", "#", Refused),
    ("CL with a minus", "Content-Length: -1\r\n", "#", Refused),
    ("CL in hex", "Content-Length: 0x10\r\n", "#", Refused),
    ("CL with a space in it", "Content-Length: 1 0\r\n", "#", Refused),
    ("CL with a point", "Content-Length: 1.0\r\n", "#", Refused),
    ("CL without digits", "Content-Length:\r\n", "#", Refused),
    ("CL beyond 64 bits", "Content-Length: 18446744073709551617\r\n", "#", Refused),
    ("CL with a vertical tab", "Content-Length: \x0b5\r\n", "#", Refused),
    ("CL with too many zeros before it", "Content-Length: 0000000000000000000000000000000000000000000000000000000000#n\r\n", "#", Refused),
    ("CL with zeros before it", "Content-Length: 000#n\r\n", "#", Taken),
    // Codings.
    ("TE xchunked", "Transfer-Encoding: xchunked\r\n", "0\r\n\r\n#", Refused),
    ("TE identity", "Transfer-Encoding: identity\r\n", "0\r\n\r\n#", Refused),
    ("TE gzip, chunked", "Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n#", Refused),
    ("TE chunked, identity", "Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n#", Refused),
    ("TE chunked, chunked", "Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n#", Refused),
    ("TE identity, then TE chunked", "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n#", Refused),
    ("TE chunked, then TE identity", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n#", Refused),
    ("TE chunked twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n#", Refused),
    ("TE in quotes", "Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n#", Refused),
    ("TE with a vertical tab", "Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n#", Refused),
    ("TE with a parameter", "Transfer-Encoding: chunked;a=b\r\n", "0\r\n\r\n#", Refused),
    ("TE without a value", "Transfer-Encoding:\r\n", "0\r\n\r\n#", Refused),
    ("TE with a comma", "Transfer-Encoding: ,chunked\r\n", "0\r\n\r\n#", Refused),
    ("TE with an underscore is another field", "Transfer_Encoding: chunked\r\nContent-Length: #n\r\n", "#", Taken),
    ("TE behind a bare CR", "Content-Length: 5\r\nX: y\rTransfer-Encoding: chunked\r\n", "0\r\n\r\n#", Refused),
    // Lines.
    ("a space before the colon of TE", "Transfer-Encoding : chunked\r\n", "0\r\n\r\n#", Refused),
    ("a space before the colon of CL", "Content-Length : #n\r\n", "#", Refused),
    ("a tab before the colon", "Content-Length\t: #n\r\n", "#", Refused),
    ("a line that begins with a space", " Transfer-Encoding: chunked\r\n", "0\r\n\r\n#", Refused),
    ("a folded line", "X: y\r\n Content-Length: #n\r\n", "#", Refused),
    ("a folded TE", "Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n#", Refused),
    ("a line without a colon", "Content-Length #n\r\n", "#", Refused),
    ("a field without a name", ": #n\r\n", "#", Refused),
    ("a NUL in a value", "X: a\0b\r\nContent-Length: #n\r\n", "#", Refused),
    ("a NUL in a name", "Content-Length\0: #n\r\n", "#", Refused),
    ("a bare CR at a line's end", "Content-Length: #n\rX: y\r\n", "#", Refused),
    ("a space in a name", "Content Length: #n\r\n", "#", Refused),
    // Chunks.
    ("a chunk's size below 0", "Transfer-Encoding: chunked\r\n", "-1\r\n#", Refused),
    ("a chunk's size with 0x", "Transfer-Encoding: chunked\r\n", "0x0\r\n\r\n#", Refused),
    ("a chunk's size with a plus", "Transfer-Encoding: chunked\r\n", "+0\r\n\r\n#", Refused),
    ("a space before a chunk's size", "Transfer-Encoding: chunked\r\n", " 0\r\n\r\n#", Refused),
    ("a chunk's size with an underscore", "Transfer-Encoding: chunked\r\n", "0_0\r\n\r\n#", Refused),
    ("a chunk's size beyond 64 bits", "Transfer-Encoding: chunked\r\n", "10000000000000000\r\n\r\n#", Refused),
    ("no chunk's size", "Transfer-Encoding: chunked\r\n", "\r\n\r\n#", Refused),
    ("a chunk's size that ends with a bare LF", "Transfer-Encoding: chunked\r\n", "0\n\n#", Refused),
    ("a chunk's size that ends with a bare CR", "Transfer-Encoding: chunked\r\n", "0\r\rX#", Refused),
    ("a bare LF in a chunk's extension", "Transfer-Encoding: chunked\r\n", "0;a\n\r\n#", Refused),
    ("a chunk longer than its size", "Transfer-Encoding: chunked\r\n", "1\r\nabc\r\n0\r\n\r\n#", Refused),
    ("a chunk without a line's end", "Transfer-Encoding: chunked\r\n", "1\r\na0\r\n\r\n#", Refused),
    ("a chunk that ends with a bare LF", "Transfer-Encoding: chunked\r\n", "1\r\na\n0\r\n\r\n#", Refused),
    ("a chunk's extension", "Transfer-Encoding: chunked\r\n", "1;a=b\r\na\r\n0;c\r\n\r\n", Taken),
    ("trailers", "Transfer-Encoding: chunked\r\n", "1\r\na\r\n0\r\nContent-Length: 50\r\nTransfer-Encoding: x\r\n\r\n", Taken),
    // Requests that are accepted.
    ("chunked, and what is hidden in a chunk", "Transfer-Encoding: chunked\r\n", "#x\r\n#\r\n0\r\n\r\n", Taken),
    ("what is hidden in a body", "Content-Length: #n\r\n", "#", Taken),
    ("spaces around a length", "Content-Length: \t #n \t \r\n", "#", Taken),
    ("spaces around chunked", "Transfer-Encoding: \t chunked \t \r\n", "0\r\n\r\n", Taken),
    ("an upgrade that nobody takes", "Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: #n\r\n", "#", Taken),
    ("an expectation of nobody", "Expect: 200-ok\r\nContent-Length: #n\r\n", "#", Taken),
];

/// Whole requests, with their heads.
#[rustfmt::skip]
const WHOLE: &[(&str, &str, Outcome)] = &[
    ("no Host", "POST /flags HTTP/1.1\r\nContent-Length: #n\r\n\r\n#", Refused),
    ("two Hosts", "POST /flags HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: #n\r\n\r\n#", Refused),
    ("the same Host twice", "POST /flags HTTP/1.1\r\nHost: t\r\nHost: t\r\nContent-Length: #n\r\n\r\n#", Refused),
    ("TE in HTTP/1.0", "POST /flags HTTP/1.0\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n#", Refused),
    ("another version", "POST /flags HTTP/1.2\r\nHost: t\r\nContent-Length: #n\r\n\r\n#", Refused),
    ("a version in lower case", "POST /flags http/1.1\r\nHost: t\r\nContent-Length: #n\r\n\r\n#", Refused),
    ("no version", "POST /flags\r\nHost: t\r\nContent-Length: #n\r\n\r\n#", Refused),
    ("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n#", Dropped),
    ("a tab in the request line", "POST\t/flags HTTP/1.1\r\nHost: t\r\nContent-Length: #n\r\n\r\n#", Refused),
    ("a NUL in the target", "POST /fl\0ags HTTP/1.1\r\nHost: t\r\nContent-Length: #n\r\n\r\n#", Refused),
    ("a bare CR in the request line", "POST /flags HTTP/1.1\rX: y\r\nHost: t\r\nContent-Length: #n\r\n\r\n#", Refused),
    ("TLS", "\x16\x03\x01\x02\0\x01\0\x01\r\n\r\n#", Refused),
    ("an empty line first", "\r\nPOST /flags HTTP/1.1\r\nHost: t\r\nContent-Length: #n\r\n\r\n#", Taken),
    ("bare LFs", "POST /flags HTTP/1.1\nHost: t\nContent-Length: #n\n\n#", Taken),
    ("a GET with a body", "GET / HTTP/1.1\r\nHost: t\r\nContent-Length: #n\r\n\r\n#", Taken),
    ("a GET with chunks", "GET / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n#x\r\n#\r\n0\r\n\r\n", Last),
];

/// Returns every vector.
pub fn vectors() -> Vec<Vector> {
    let fill = |text: &str| {
        text.replace("#n", &HIDDEN.len().to_string())
            .replace("#x", &format!("{:x}", HIDDEN.len()))
            .replace('#', HIDDEN)
            .into_bytes()
    };
    let posts = POSTS.iter().map(|(name, headers, body, outcome)| Vector {
        name,
        bytes: fill(&format!(
            "POST /flags HTTP/1.1\r\nHost: t\r\n{headers}\r\n{body}"
        )),
        outcome: *outcome,
    });
    let whole = WHOLE.iter().map(|(name, text, outcome)| Vector {
        name,
        bytes: fill(text),
        outcome: *outcome,
    });
    posts.chain(whole).collect()
}

/// Builds a request whose response names it; the last of its connection.
pub fn canary(name: &str) -> Vec<u8> {
    format!("GET /array/{name}/config HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")
        .into_bytes()
}

/// Text by which the response to [`canary`] is recognised.
pub fn sign(name: &str) -> String {
    format!(r#"{{"token":"{name}","#)
}

/// Sends bytes and reads until the other side closes.
pub fn exchange(mut stream: impl Read + Write, bytes: &[u8]) -> String {
    // A peer that has refused and gone does not read the rest.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        let gone = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
        assert!(gone.contains(&error.kind()), "{error}: no end came");
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn there_are_more_than_40_vectors() {
    assert!(vectors().len() > 40, "{}", vectors().len());
}
