//! Bodies in chunks, as streamed responses have them.

/// Returns true if the head of a response announces chunks.
pub(super) fn is_chunked(head: &str) -> bool {
    head.lines().any(|line| {
        line.split_once(':').is_some_and(|(name, value)| {
            name.eq_ignore_ascii_case("transfer-encoding")
                && value.trim().eq_ignore_ascii_case("chunked")
        })
    })
}

/// Joins the chunks of a body; what has not arrived is left out.
pub(super) fn joined(mut body: &[u8]) -> Vec<u8> {
    let mut joined = Vec::new();
    while let Some((size @ 1.., rest)) = size_and_rest(body) {
        let (chunk, rest) = rest.split_at_checked(size).unwrap_or((rest, &[]));
        joined.extend_from_slice(chunk);
        body = rest.strip_prefix(b"\r\n").unwrap_or(rest);
    }
    joined
}

/// Size of the next chunk, and the bytes behind its line.
fn size_and_rest(body: &[u8]) -> Option<(usize, &[u8])> {
    let end = body.windows(2).position(|window| window == b"\r\n")?;
    let (line, rest) = body.split_at_checked(end)?;
    let size = std::str::from_utf8(line).ok()?.split(';').next()?;
    let size = usize::from_str_radix(size.trim(), 16).ok()?;
    Some((size, rest.strip_prefix(b"\r\n")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_joined_as_far_as_they_arrived() {
        for (body, expected) in [
            ("3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", "abcde"),
            ("3\r\nabc\r\nA\r\nde", "abcde"),
            ("3\r\nab", "ab"),
            ("0\r\n\r\n", ""),
            ("x\r\nabc", ""),
            ("", ""),
        ] {
            assert_eq!(joined(body.as_bytes()), expected.as_bytes(), "{body:?}");
        }
    }

    #[test]
    fn the_head_tells_whether_a_body_has_chunks() {
        for (head, expected) in [
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3", false),
            ("HTTP/1.1 200 OK", false),
        ] {
            assert_eq!(is_chunked(head), expected, "{head}");
        }
    }
}
