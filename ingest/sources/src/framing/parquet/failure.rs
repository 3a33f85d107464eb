//! Errors of a file, the panics of the library among them.

use crate::FileError;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Most characters of an error's reason.
const REASON_CHARS_MAX: usize = 300;

/// Error of the file. The reason is cut, as it may contain long names of columns.
pub(super) fn malformed(reason: impl Display) -> FileError {
    let reason = reason.to_string();
    let reason = reason.trim_start_matches("Parquet argument error: ");
    let reason = reason.trim_start_matches("Parquet error: ");
    let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
    FileError::Malformed {
        offset: 0,
        message: format!("The file is not readable Parquet: {reason}."),
    }
}

/// Turns a panic of the library into an error of the file: it does not check damaged files enough,
/// and the other files must still be read.
pub(super) fn guarded<T, E: Display>(read: impl FnOnce() -> Result<T, E>) -> Result<T, FileError> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(malformed(error)),
        Err(_) => Err(malformed("it is damaged")),
    }
}
