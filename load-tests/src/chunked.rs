//! Lengths of chunked bodies.
//!
//! Bodies are not decoded: a generator needs to know where a response ends, and looks into its body
//! for a few words only.

/// Longest line of a chunk's size or of a trailer, in bytes.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// Error for bytes that are no chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadChunk;

/// Length of the chunked body at the beginning of `bytes`, with sizes and trailers; `None` if it is
/// incomplete.
///
/// # Errors
/// The bytes can never become a chunked body.
pub fn body_bytes(bytes: &[u8]) -> Result<Option<usize>, BadChunk> {
    let mut at = 0;
    loop {
        let Some(line) = line(bytes, at)? else {
            return Ok(None);
        };
        let chunk_bytes = size(line)?;
        at += line.len() + 2;
        if chunk_bytes == 0 {
            return trailers_end(bytes, at);
        }
        // The chunk is followed by a line end of its own.
        at = at
            .checked_add(chunk_bytes)
            .and_then(|end| end.checked_add(2))
            .ok_or(BadChunk)?;
    }
}

/// End of the trailers that begin at `at`: they end with an empty line.
fn trailers_end(bytes: &[u8], mut at: usize) -> Result<Option<usize>, BadChunk> {
    while let Some(line) = line(bytes, at)? {
        at += line.len() + 2;
        if line.is_empty() {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Line that begins at `at`, without its end; `None` if it is incomplete.
fn line(bytes: &[u8], at: usize) -> Result<Option<&[u8]>, BadChunk> {
    let rest = bytes.get(at..).unwrap_or_default();
    match rest.windows(2).position(|pair| pair == b"\r\n") {
        Some(end) => Ok(rest.get(..end)),
        None if rest.len() > LINE_BYTES_MAX => Err(BadChunk),
        None => Ok(None),
    }
}

/// Number of bytes in a chunk, in hexadecimal digits; what follows a semicolon is an extension.
fn size(line: &[u8]) -> Result<usize, BadChunk> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    let text = std::str::from_utf8(digits.trim_ascii()).map_err(|_| BadChunk)?;
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(BadChunk);
    }
    usize::from_str_radix(text, 16).map_err(|_| BadChunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_ends_behind_its_last_chunk_and_trailers() {
        for body in [
            "0\r\n\r\n",
            "3\r\nabc\r\n0\r\n\r\n",
            "a;name=value\r\n0123456789\r\nA\r\n\r\n34567890\r\n0\r\n\r\n",
            "1\r\nx\r\n0\r\nTrailer: value\r\n\r\n",
        ] {
            let more = format!("{body}HTTP/1.1");
            assert_eq!(body_bytes(more.as_bytes()), Ok(Some(body.len())), "{body}");
            for seen in 0..body.len() {
                let part = &body.as_bytes()[..seen];
                assert_eq!(body_bytes(part), Ok(None), "{seen} bytes of {body}");
            }
        }
    }

    #[test]
    fn sizes_that_are_no_hexadecimal_number_are_refused() {
        let long = "1".repeat(LINE_BYTES_MAX + 1);
        for body in [
            "x\r\n",
            "-1\r\n",
            "+1\r\n",
            "\r\n",
            "1ffffffffffffffff\r\n",
            &long,
        ] {
            assert_eq!(body_bytes(body.as_bytes()), Err(BadChunk), "{body:.20}");
        }
        let overflow = format!("{:x}\r\n", usize::MAX);
        assert_eq!(body_bytes(overflow.as_bytes()), Err(BadChunk));
    }
}
