//! Reasons why a resend ends early.

use millrace_catalog::{CatalogError, ChangeError};
use millrace_clickhouse::QueryError;

/// Reason why a resend ended early.
#[derive(Debug, thiserror::Error)]
pub enum ResendError {
    /// Rejected events cannot be read.
    #[error("cannot read rejected events")]
    ClickHouse(#[from] QueryError),
    /// Events were accepted, and are not recorded as sent.
    #[error("{0} of the last request: sent, but recording that failed; the next resend records it")]
    Recording(String, #[source] QueryError),
    /// The catalog cannot be read or written, or the actor may not.
    #[error("cannot begin a request")]
    Change(#[from] ChangeError),
    /// A request of this resend has no answer.
    #[error("it is unknown whether the server stored the last request; the next resend settles it")]
    InDoubt(#[source] anyhow::Error),
    /// A request of an earlier resend has no answer still.
    #[error(
        "it is unknown whether the server stored {0} of an interrupted resend, and nothing else of \
         the project is sent before that is known, or an hour has passed"
    )]
    Pending(String, #[source] anyhow::Error),
    /// The server accepts nothing, and nothing is stored.
    #[error(transparent)]
    Server(#[from] anyhow::Error),
}

impl From<CatalogError> for ResendError {
    fn from(error: CatalogError) -> Self {
        Self::Change(error.into())
    }
}

/// Reason why nothing is sent to a project without a key.
pub fn no_key(project_id: i64) -> String {
    format!(
        "project {project_id} has no key; `millrace keys create --project-id {project_id}` gives it one"
    )
}
