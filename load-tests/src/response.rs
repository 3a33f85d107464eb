//! Parser of responses: just enough HTTP/1.1 to read a server's short responses.
//!
//! A response has a `Content-Length`, as those of capture endpoints do, or is chunked, as those of
//! gateways and databases may be. One that ends with its connection is refused with a clear error.

use crate::chunked;
use std::fmt;

/// Longest response head in bytes.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// HTTP status code.
    pub status: u16,
    /// Length of the head in bytes, with its empty line.
    pub head_bytes: usize,
    /// Body that follows.
    pub body: ResponseBody,
    /// True if the server closes the connection after the response.
    pub close: bool,
}

/// Body of a response, as its head announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// Number of bytes that follow.
    Length(usize),
    /// Chunks, of which the last one is empty.
    Chunked,
}

impl ResponseHead {
    /// Length of the body in bytes, given the beginning of it that was received; `None` while it is
    /// incomplete.
    ///
    /// # Errors
    /// The bytes are no chunks.
    pub fn body_bytes(&self, received: &[u8]) -> Result<Option<usize>, ResponseError> {
        match self.body {
            ResponseBody::Length(length) => Ok((received.len() >= length).then_some(length)),
            ResponseBody::Chunked => {
                chunked::body_bytes(received).map_err(|_| ResponseError::BadChunk)
            }
        }
    }
}

/// Reason why a response cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseError {
    /// The bytes do not begin like HTTP/1.
    NotHttp,
    /// The length is missing or not a number, and the response is not chunked.
    NoLength,
    /// The chunks of a chunked response cannot be parsed.
    BadChunk,
    /// The head is longer than [`HEAD_BYTES_MAX`].
    HeadTooLong,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotHttp => "answer is not HTTP/1.1",
            Self::NoLength => "answer has no Content-Length",
            Self::BadChunk => "answer's chunks cannot be parsed",
            Self::HeadTooLong => "answer's head is too long",
        })
    }
}

impl std::error::Error for ResponseError {}

/// Parses a head at the beginning of `bytes`; `None` if it is incomplete.
///
/// # Errors
/// The bytes can never become a supported response.
pub fn read_head(bytes: &[u8]) -> Result<Option<ResponseHead>, ResponseError> {
    const START: &[u8] = b"HTTP/1.";
    let seen = bytes.len().min(START.len());
    if bytes.get(..seen) != START.get(..seen) {
        return Err(ResponseError::NotHttp);
    }
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return if bytes.len() > HEAD_BYTES_MAX {
            Err(ResponseError::HeadTooLong)
        } else {
            Ok(None)
        };
    };
    let mut lines = bytes
        .get(..end)
        .unwrap_or_default()
        .split(|byte| *byte == b'\n');
    let status = lines
        .next()
        .and_then(|line| line.get(9..12))
        .and_then(number)
        .and_then(|status| u16::try_from(status).ok())
        .ok_or(ResponseError::NotHttp)?;
    let mut head = ResponseHead {
        status,
        head_bytes: end + 4,
        body: ResponseBody::Length(0),
        close: false,
    };
    let mut body = (status == 204).then_some(ResponseBody::Length(0));
    for line in lines {
        if let Some(value) = header(line, b"content-length") {
            body = number(value).map(ResponseBody::Length);
        } else if header(line, b"transfer-encoding")
            .is_some_and(|value| value.eq_ignore_ascii_case(b"chunked"))
        {
            body = Some(ResponseBody::Chunked);
        } else if let Some(value) = header(line, b"connection") {
            head.close = value.eq_ignore_ascii_case(b"close");
        }
    }
    head.body = body.ok_or(ResponseError::NoLength)?;
    Ok(Some(head))
}

/// Value of a header line, if it is that header.
fn header<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (found, rest) = line.split_at_checked(name.len())?;
    let value = rest.strip_prefix(b":")?;
    found.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

/// Parses a decimal number without sign.
fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
        Content-LENGTH:  15 \r\nconnection: Close\r\n\r\n{\"status\":\"Ok\"}";

    #[test]
    fn a_head_is_parsed_once_it_is_complete() {
        let head_bytes = ANSWER.len() - 15;
        for seen in 0..head_bytes {
            assert_eq!(read_head(&ANSWER[..seen]), Ok(None), "{seen} bytes");
        }
        let head = ResponseHead {
            status: 200,
            head_bytes,
            body: ResponseBody::Length(15),
            close: true,
        };
        assert_eq!(read_head(&ANSWER[..head_bytes]), Ok(Some(head)));
        assert_eq!(read_head(ANSWER), Ok(Some(head)));
        for (received, length) in [(0, None), (14, None), (15, Some(15)), (16, Some(15))] {
            assert_eq!(head.body_bytes(&[b'x'; 16][..received]), Ok(length));
        }
    }

    #[test]
    fn a_chunked_response_ends_with_its_last_chunk() {
        let bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n";
        let head = read_head(bytes).unwrap().unwrap();
        assert_eq!(head.body, ResponseBody::Chunked);
        for (body, length) in [
            (&b"2\r\nok"[..], Ok(None)),
            (b"2\r\nok\r\n0\r\n\r\n", Ok(Some(12))),
            (b"ok\r\n", Err(ResponseError::BadChunk)),
        ] {
            assert_eq!(head.body_bytes(body), length, "{}", body.escape_ascii());
        }
    }

    #[test]
    fn an_unsupported_response_is_refused() {
        for (bytes, error) in [
            (&b"SSH-2.0"[..], ResponseError::NotHttp),
            (b"HTTP/2 200", ResponseError::NotHttp),
            (b"HTTP/1.1 2x0 OK\r\n\r\n", ResponseError::NotHttp),
            (b"HTTP/1.1\r\n\r\n", ResponseError::NotHttp),
            (
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
                ResponseError::NoLength,
            ),
            (
                b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
                ResponseError::NoLength,
            ),
        ] {
            assert_eq!(read_head(bytes), Err(error), "{}", bytes.escape_ascii());
        }
        let mut endless = b"HTTP/1.1 200 OK\r\n".to_vec();
        endless.resize(HEAD_BYTES_MAX + 1, b'a');
        assert_eq!(read_head(&endless), Err(ResponseError::HeadTooLong));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_response_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_head(&[b"HTTP/1.1 ", bytes.as_slice()].concat());
        }
    }
}
