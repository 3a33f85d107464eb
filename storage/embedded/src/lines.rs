//! Lines that another process writes: of bounded length, and text whatever their bytes are.
//!
//! The engine's standard error may have anything in it, such as texts of its clients. A line
//! without an end must not take the server's memory, and one that is not UTF-8 must not end the
//! reading.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use crossbeam_channel::Sender;

/// Most bytes of a line that are kept.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Reads the next line without its end; `None` when there is none. Of a long line the rest is
/// replaced by its length, and bytes that are not UTF-8 by the replacement character.
///
/// # Errors
/// Reading fails.
pub(crate) fn next_line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let (mut has_begun, mut cut_bytes) = (false, 0);
    loop {
        let bytes = match from.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if bytes.is_empty() {
            if has_begun {
                break;
            }
            return Ok(None);
        }
        has_begun = true;
        let end = memchr::memchr(b'\n', bytes);
        let part = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
        let room = LINE_BYTES_MAX.saturating_sub(line.len());
        let (kept, cut) = part.split_at(room.min(part.len()));
        line.extend_from_slice(kept);
        cut_bytes += cut.len();
        let used = end.map_or(bytes.len(), |end| end + 1);
        from.consume(used);
        if end.is_some() {
            break;
        }
    }
    if cut_bytes == 0 {
        line.pop_if(|last| *last == b'\r');
        return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
    }
    let kept = String::from_utf8_lossy(&line);
    Ok(Some(format!("{kept} … ({cut_bytes} bytes cut)")))
}

/// Logs what the process writes to standard error, but for empty lines, and passes the lines on.
pub(crate) fn forward_errors(err: impl Read, lines: &Sender<String>) {
    let mut err = BufReader::new(err);
    // Read until it is closed: that is how the process's end shows.
    while let Ok(Some(line)) = next_line(&mut err) {
        if line.trim().is_empty() {
            continue;
        }
        tracing::info!(target: "clickhouse", "{line}");
        // Only the last line is kept; when the receiver is behind, some are skipped.
        let _ = lines.try_send(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::bounded;

    fn lines(bytes: &[u8]) -> Vec<String> {
        // A small buffer, so that lines come in pieces.
        let mut from = BufReader::with_capacity(7, bytes);
        std::iter::from_fn(|| next_line(&mut from).unwrap()).collect()
    }

    #[test]
    fn lines_are_read_to_the_end_whatever_their_bytes_are() {
        let table: [(&[u8], &[&str]); 6] = [
            (b"", &[]),
            (b"one\ntwo\n", &["one", "two"]),
            (b"no end", &["no end"]),
            (b"\n\nafter empty ones", &["", "", "after empty ones"]),
            (b"of a DOS file\r\nnext", &["of a DOS file", "next"]),
            (b"not \xff UTF-8\nnext\n", &["not \u{fffd} UTF-8", "next"]),
        ];
        for (bytes, expected) in table {
            assert_eq!(lines(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn empty_lines_are_not_passed_on() {
        let (sender, passed) = bounded(8);
        forward_errors(&b"\none\n\n  \r\n two\n\n"[..], &sender);
        let passed: Vec<String> = passed.try_iter().collect();
        assert_eq!(passed, ["one", " two"]);
    }

    #[test]
    fn of_a_long_line_64_kib_are_kept_and_the_next_one_is_read() {
        for (length, cut) in [
            (LINE_BYTES_MAX, 0),
            (LINE_BYTES_MAX + 1, 1),
            (1 << 20, 983_040),
        ] {
            let text = format!("{}\nnext\n", "a".repeat(length));
            let kept = "a".repeat(LINE_BYTES_MAX);
            let first = match cut {
                0 => kept,
                cut => format!("{kept} … ({cut} bytes cut)"),
            };
            assert_eq!(
                lines(text.as_bytes()),
                [first, "next".to_owned()],
                "{length}"
            );
        }
    }
}
