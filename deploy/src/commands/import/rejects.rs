//! Words on the file of rejects of an import, and how its records are sent again.

use super::OF_THIS_RUN;
use crate::commands::{Given, quoted};
use millrace_import::staging::LoadFolder;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// Says where the rejects of an import are, of which people may have taken some out.
pub(super) fn where_they_are(folder: &LoadFolder, rejected: u64, given: &Given) -> String {
    let rejects = folder.rejects();
    let lines = lines(&rejects).unwrap_or_default();
    let which = match lines {
        lines if lines == rejected => "They are".to_owned(),
        1 => "1 of them is".to_owned(),
        lines => format!("{lines} of them are"),
    };
    let others = match lines {
        lines if lines == rejected => "",
        _ if folder.resending().exists() => " The others are on their way again.",
        _ => " The others were taken out of it.",
    };
    format!(
        "{which} in {}, one on each line, with reason, file and line.{others} Mend `raw` there, or the mapping, then:\n  {}",
        rejects.display(),
        load_them(given, &rejects)
    )
}

/// Counts the lines of a file that have something in them.
fn lines(path: &Path) -> io::Result<u64> {
    let mut file = BufReader::new(File::open(path)?);
    let (mut count, mut is_empty) = (0, true);
    loop {
        let read = file.fill_buf()?;
        if read.is_empty() {
            return Ok(count + u64::from(!is_empty));
        }
        for byte in read {
            if *byte == b'\n' {
                count += u64::from(!is_empty);
                is_empty = true;
            } else {
                is_empty &= byte.is_ascii_whitespace();
            }
        }
        let length = read.len();
        file.consume(length);
    }
}

/// The command that sends rejects again.
pub(super) fn load_them(given: &Given, rejects: &Path) -> String {
    let command = given.command("import load", &OF_THIS_RUN);
    format!("{command} --rejects {}", quoted(&rejects.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_something_in_them_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rejects.ndjson");
        let table = [
            ("", 0),
            ("\n \n", 0),
            ("a", 1),
            ("a\nb\n", 2),
            ("a\n\nb", 2),
        ];
        for (text, expected) in table {
            std::fs::write(&path, text).unwrap();
            assert_eq!(lines(&path).unwrap(), expected, "{text:?}");
        }
    }
}
