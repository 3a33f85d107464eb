//! Error of an export, and whether a retry may help.

use millrace_rows::counted;
use thiserror::Error;

/// Kind of an export's error: decides whether a run is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportErrorKind {
    /// A retry may help: the other side is down, slow or busy.
    Retryable,
    /// A retry does not help until the customer changes something: credentials, names, rights.
    Permanent,
    /// A retry helps as soon as the operator has done something, or our ClickHouse can be read
    /// again. The customer is not at fault, so retries do not end and no export is paused for it.
    Waiting,
}

/// Error of an export, in words for the customer: it names no address that the customer did not
/// give, no secret, and nothing of our own network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ExportError {
    /// Decides whether a retry may help.
    pub kind: ExportErrorKind,
    /// Description of what happened and what to do about it.
    pub message: String,
}

impl ExportError {
    /// Creates an error after which a retry may help.
    pub fn retryable(message: impl Into<String>) -> Self {
        Self {
            kind: ExportErrorKind::Retryable,
            message: message.into(),
        }
    }

    /// Creates an error that the customer has to mend before a retry helps.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self {
            kind: ExportErrorKind::Permanent,
            message: message.into(),
        }
    }

    /// Creates the error for fewer rows that arrived than were sent.
    pub(crate) fn rows_missing(arrived: u64, sent: u64) -> Self {
        let sent = counted(sent, "row");
        Self::retryable(format!("Sent {sent}, of which {arrived} arrived."))
    }

    /// Creates an error that is the server's to mend before a retry helps.
    pub fn waiting(message: impl Into<String>) -> Self {
        Self {
            kind: ExportErrorKind::Waiting,
            message: message.into(),
        }
    }
}
