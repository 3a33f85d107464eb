//! Output of the program to people and scripts.
//!
//! A command goes on with its work where its output cannot be written: half of a change would be
//! worse than one that nobody saw. The first failure is kept, and [`finish`] returns it. A reader
//! that has closed the pipe, as pagers do, has read what it wanted and is no failure.

use anyhow::Context;
use millrace_rows::{shown_json, shown_lines};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

/// First failure to write to standard output.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Prints text to standard output, without control characters but line feeds. Untrusted text goes
/// through [`millrace_rows::shown`] first, so that it adds no line.
pub fn print(text: &str) {
    keep(writeln!(io::stdout(), "{}", shown_lines(text)));
}

/// Prints JSON to standard output; control characters are escaped without changing its meaning.
pub fn print_json(json: &str) {
    keep(writeln!(io::stdout(), "{}", shown_json(json)));
}

/// Writes bytes to standard output; returns false once nobody gets them.
pub fn write(bytes: &[u8]) -> bool {
    keep(io::stdout().write_all(bytes))
}

/// Keeps the outcome of output that was written elsewhere, as clap's.
pub fn keep(written: io::Result<()>) -> bool {
    match written {
        Ok(()) => true,
        Err(error) => {
            // Later ones follow from the first.
            let _ = FAILURE.set(error);
            false
        }
    }
}

/// Writes what is still buffered, and returns the first failure of all output so far.
///
/// # Errors
/// When something was not written though somebody may read it.
pub fn finish() -> anyhow::Result<()> {
    keep(io::stdout().flush());
    unless_left(FAILURE.get()).context("standard output cannot be written")
}

/// Returns the failure, unless the reader has gone.
fn unless_left(failure: Option<&'static io::Error>) -> Result<(), &'static io::Error> {
    match failure {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Prints the message of a failure to standard error; returns the exit code.
pub fn fail(code: u8, message: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "millrace: {}", shown_lines(message));
    ExitCode::from(code)
}
