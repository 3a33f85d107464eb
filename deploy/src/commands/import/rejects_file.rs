//! Messages on the rejects file of an import, and the command that resends its records.

use super::options::SINGLE_RUN_OPTIONS;
use crate::commands::{Invocation, quoted};
use millrace_import::staging::LoadFolder;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// Names the file of an import's rejects, from which people may have removed some.
pub(super) fn rejects_hint(folder: &LoadFolder, rejected: u64, invocation: &Invocation) -> String {
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
        "{which} in {}, one on each line, with reason, file and line.{others} Correct `raw` there, or the mapping, then:\n  {}",
        rejects.display(),
        resend_command(invocation, &rejects)
    )
}

/// Counts the lines of a file that are not blank.
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

/// Command that resends rejects.
pub(super) fn resend_command(invocation: &Invocation, rejects: &Path) -> String {
    let command = invocation.command("import load", &SINGLE_RUN_OPTIONS);
    format!("{command} --rejects {}", quoted(&rejects.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_are_not_counted() {
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
