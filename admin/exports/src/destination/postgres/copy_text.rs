//! Rows in COPY's text format: values between tabs, `\N` for null, and a backslash before special
//! characters.

use crate::destination::table::row::Cell;
use bytes::{BufMut, BytesMut};

/// Appends a row.
pub(super) fn append(row: &[Cell<'_>], out: &mut BytesMut) {
    for (index, cell) in row.iter().enumerate() {
        if index > 0 {
            out.put_u8(b'\t');
        }
        match cell {
            None => out.put_slice(b"\\N"),
            Some(text) => append_text(text, out),
        }
    }
    out.put_u8(b'\n');
}

fn append_text(text: &str, out: &mut BytesMut) {
    let mut rest = text.as_bytes();
    while let Some(at) = rest
        .iter()
        .position(|byte| matches!(byte, b'\\' | b'\t' | b'\n' | b'\r'))
    {
        let (plain, special) = rest.split_at(at);
        out.put_slice(plain);
        let Some((first, behind)) = special.split_first() else {
            return;
        };
        out.put_slice(match first {
            b'\t' => b"\\t",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            _ => b"\\\\",
        });
        rest = behind;
    }
    out.put_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::append;
    use bytes::BytesMut;

    #[test]
    fn separators_are_escaped() {
        let mut row = vec![None; 11];
        row[0] = Some("a\tb\nc\rd\\N".into());
        row[2] = Some("".into());
        let mut out = BytesMut::new();
        append(&row, &mut out);
        let nulls = "\\N\t".repeat(7);
        let expected = format!("a\\tb\\nc\\rd\\\\N\t\\N\t\t{nulls}\\N\n");
        assert_eq!(out, expected);
    }
}
