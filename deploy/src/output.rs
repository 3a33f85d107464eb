//! Output of the program to people and scripts.

use millrace_rows::{shown_json, shown_lines};
use std::io::Write;
use std::process::ExitCode;

/// Prints text to standard output, without control characters but line feeds; a closed pipe is no
/// error. Untrusted text goes through [`millrace_rows::shown`] first, so that it adds no line.
pub fn print(text: &str) {
    let _ = writeln!(std::io::stdout(), "{}", shown_lines(text));
}

/// Prints JSON to standard output; control characters are escaped without changing its meaning.
pub fn print_json(json: &str) {
    let _ = writeln!(std::io::stdout(), "{}", shown_json(json));
}

/// Prints the message of a failure to standard error; returns the exit code.
pub fn fail(code: u8, message: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "millrace: {}", shown_lines(message));
    ExitCode::from(code)
}
