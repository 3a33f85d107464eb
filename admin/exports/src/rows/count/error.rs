//! Errors of counting.

use thiserror::Error;

/// Error of counting: the bytes are truncated, or of another form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CountError {
    /// The bytes are truncated.
    #[error("the rows end in the middle")]
    Cut,
    /// The bytes are not of that form.
    #[error("the rows are not in the form that was asked for: {0}")]
    Malformed(&'static str),
}
