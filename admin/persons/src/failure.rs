//! Failures of a round.

use millrace_catalog::CatalogError;
use millrace_clickhouse::{InsertError, QueryError, QueryErrorKind};
use thiserror::Error;

/// Reason that a round failed; the next one begins where it began.
#[derive(Debug, Error)]
pub enum Failure {
    /// The catalog could not be read or written.
    #[error("the catalog: {0}")]
    Catalog(#[from] CatalogError),
    /// Updates could not be read or dropped.
    #[error("person_updates: {0}")]
    Read(#[from] QueryError),
    /// ClickHouse answered with something else than rows.
    #[error("a row of person_updates cannot be read")]
    Malformed,
    /// Success was answered without proof that ClickHouse did, to this query: there may be rows.
    #[error("person_updates: the answer does not name its query's columns, so it proves nothing")]
    Unproven,
    /// Changes could not be copied to ClickHouse.
    #[error("copying persons: {0}")]
    Copy(#[from] InsertError),
}

impl Failure {
    /// Cause that stays the same for as long as the failure lasts: ClickHouse repeats the statement
    /// in its message, and that differs from round to round.
    pub(crate) fn cause(&self) -> String {
        match self {
            Self::Read(error) => error.cause(),
            Self::Copy(error) => match error.code {
                Some(code) => format!("ClickHouse {code}"),
                None => error.outcome.name().to_owned(),
            },
            Self::Catalog(_) | Self::Malformed | Self::Unproven => self.to_string(),
        }
    }

    /// Returns true if nobody listened at ClickHouse's address.
    pub(crate) fn is_without_connection(&self) -> bool {
        matches!(self, Self::Read(error) if error.kind == QueryErrorKind::NoConnection)
    }

    /// Returns true if ClickHouse has no tables yet, or no longer.
    pub(crate) fn tables_are_missing(&self) -> bool {
        match self {
            Self::Read(error) => error.schema_is_missing(),
            Self::Copy(error) => error.schema_is_missing(),
            Self::Catalog(_) | Self::Malformed | Self::Unproven => false,
        }
    }
}
