//! Reasons that a query is refused.

use std::fmt;
use thiserror::Error;

/// Reason that a query is refused, for its author.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct QueryError(pub(super) String);

/// Error about a part that is not known to be harmless.
pub(super) fn refused(what: &str) -> QueryError {
    QueryError(format!("A query may not have {what}."))
}

/// Error about a text that is no SQL.
pub(super) fn unreadable(error: &dyn fmt::Display) -> QueryError {
    QueryError(format!("The query cannot be read: {error}."))
}
