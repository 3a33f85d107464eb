//! Answer of a query as a table: a line for each row, whatever its texts hold, so that a pager can
//! scroll it sideways.

use crate::output;
use millrace_import::count::counted;
use millrace_rows::shown;

/// Most rows of a table, which is kept in memory until its columns are known to be wide enough.
const ROWS_MAX: usize = 10_000;
/// Space between two columns.
const GAP: &str = "  ";

/// Rows of an answer.
#[derive(Debug, Default)]
pub struct RowTable {
    /// Names of the columns, then the rows.
    lines: Vec<Vec<String>>,
    widths: Vec<usize>,
    /// Rows that the table has no room for.
    omitted: u64,
}

impl RowTable {
    /// Takes lines of JSON, each a list of texts; the first of all has the names of the columns.
    ///
    /// # Errors
    /// When a line is no such list.
    pub fn take(&mut self, lines: &[u8]) -> anyhow::Result<()> {
        let lines = lines.split(|byte| *byte == b'\n');
        for line in lines.filter(|line| !line.is_empty()) {
            if self.lines.len() > ROWS_MAX {
                self.omitted += 1;
                continue;
            }
            // ClickHouse's texts are any bytes, as those of `MD5`, and stay so in its JSON.
            let line = String::from_utf8_lossy(line);
            let cells: Vec<String> = serde_json::from_str(&line)?;
            let cells: Vec<String> = cells.iter().map(|cell| shown(cell).into_owned()).collect();
            for (index, cell) in cells.iter().enumerate() {
                let width = cell.chars().count();
                match self.widths.get_mut(index) {
                    Some(widest) => *widest = width.max(*widest),
                    None => self.widths.push(width),
                }
            }
            self.lines.push(cells);
        }
        Ok(())
    }

    /// Prints the table.
    pub fn print(&self) {
        for line in &self.lines {
            output::print(&self.line(line));
        }
        if self.omitted > 0 {
            let omitted = counted(self.omitted, "more row");
            output::print(&format!("and {omitted}: --format csv prints all"));
        }
    }

    fn line(&self, cells: &[String]) -> String {
        let cells = cells.iter().zip(&self.widths);
        let padded = cells.map(|(cell, width)| {
            let width = *width;
            format!("{cell:<width$}")
        });
        let padded: Vec<String> = padded.collect();
        padded.join(GAP).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_line_in_columns() {
        let mut table = RowTable::default();
        table.take(b"[\"event\",\"n\"]\n").unwrap();
        table.take(b"[\"a\\nb\",\"10\"]\n[\"\",\"2\"]\n").unwrap();
        let lines: Vec<_> = table.lines.iter().map(|line| table.line(line)).collect();
        assert_eq!(lines, ["event    n", "a\\u{a}b  10", "         2"]);
        table.take(b"no list").unwrap_err();
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let table: [(&[u8], &str); 4] = [
            ("[\"Größe\"]\n".as_bytes(), "Größe"),
            (b"[\"Gr\xc3\"]\n", "Gr\u{fffd}"),
            (b"[\"\xff\\n\"]\n", "\u{fffd}\\u{a}"),
            (b"[\"\xe2\x82a\"]", "\u{fffd}a"),
        ];
        for (line, expected) in table {
            let mut rows = RowTable::default();
            rows.take(line).unwrap();
            let lines: Vec<_> = rows.lines.iter().map(|line| rows.line(line)).collect();
            assert_eq!(lines, [expected], "{line:?}");
        }
    }

    #[test]
    fn rows_beyond_the_limit_are_counted() {
        let mut table = RowTable::default();
        let lines = "[\"1\"]\n".repeat(ROWS_MAX + 3);
        table.take(lines.as_bytes()).unwrap();
        assert_eq!((table.lines.len(), table.omitted), (ROWS_MAX + 1, 2));
    }
}
