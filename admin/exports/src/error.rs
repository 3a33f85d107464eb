//! Why a run did not succeed.

use millrace_rows::counted;
use thiserror::Error;

/// Whether another try may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// It may: the other side is away, slow or busy.
    Retry,
    /// It will not until somebody changes something: credentials, names, rights.
    Hopeless,
    /// It will as soon as the operator has done something. That is no fault of the customer's, so
    /// tries do not end and no export is paused for it.
    Waits,
}

/// What went wrong, for the customer: it names no address that the customer did not give, no
/// secret, and nothing of our own network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ExportError {
    /// Whether another try may help.
    pub outlook: Outlook,
    /// What happened and what to do about it.
    pub message: String,
}

impl ExportError {
    /// Another try may help.
    pub fn retry(message: impl Into<String>) -> Self {
        Self {
            outlook: Outlook::Retry,
            message: message.into(),
        }
    }

    /// Somebody has to change something first.
    pub fn hopeless(message: impl Into<String>) -> Self {
        Self {
            outlook: Outlook::Hopeless,
            message: message.into(),
        }
    }

    /// Fewer rows arrived than were sent.
    pub(crate) fn rows_missing(arrived: u64, sent: u64) -> Self {
        let sent = counted(sent, "row");
        Self::retry(format!("Sent {sent}, of which {arrived} arrived."))
    }

    /// The operator has to do something first.
    pub fn waits(message: impl Into<String>) -> Self {
        Self {
            outlook: Outlook::Waits,
            message: message.into(),
        }
    }
}
