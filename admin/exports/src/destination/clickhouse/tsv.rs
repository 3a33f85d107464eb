//! Rows in ClickHouse's TSV.

use crate::destination::table::row::Cell;

/// Appends a row; a value that is null becomes the empty text.
pub(super) fn append(cells: &[Cell<'_>], out: &mut Vec<u8>) {
    for (nth, cell) in cells.iter().enumerate() {
        if nth > 0 {
            out.push(b'\t');
        }
        for byte in cell.as_deref().unwrap_or_default().bytes() {
            match byte {
                b'\\' => out.extend_from_slice(b"\\\\"),
                b'\t' => out.extend_from_slice(b"\\t"),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                0 => out.extend_from_slice(b"\\0"),
                byte => out.push(byte),
            }
        }
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_within_values_are_escaped() {
        let mut out = Vec::new();
        let cells: [Cell<'_>; 3] = [Some("a\tb\\N".into()), None, Some("é\r\n\0\"'".into())];
        append(&cells, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "a\\tb\\\\N\t\té\\r\\n\\0\"'\n"
        );
    }
}
