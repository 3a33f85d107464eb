//! Failures to use a catalogue.

use thiserror::Error;

/// Failure to use a catalogue; for the operator.
#[derive(Debug, Error)]
pub enum CatalogueError {
    /// A file is missing or too long, or the server does not answer.
    #[error("the plugin catalogue has no usable {name}: {reason}")]
    Unreadable {
        /// Name of the file.
        name: String,
        /// Error of the system or the server.
        reason: String,
    },
    /// A file is not the JSON that is expected.
    #[error("{name} of the plugin catalogue is not valid: {reason}")]
    Malformed {
        /// Name of the file.
        name: String,
        /// Position and cause of the error.
        reason: String,
    },
}
