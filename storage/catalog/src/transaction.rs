//! Transactions that write: begun, ended, and why they were not committed.

use crate::catalog::Catalog;
use crate::error::ChangeError;
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, EntityTrait, QuerySelect, Select,
};

/// Why a transaction was not committed.
#[derive(Debug)]
pub(crate) enum Abort {
    /// The database failed.
    Database(DbErr),
    /// A rule was broken.
    Rule(ChangeError),
}

impl From<DbErr> for Abort {
    fn from(error: DbErr) -> Self {
        Self::Database(error)
    }
}

impl From<ChangeError> for Abort {
    fn from(error: ChangeError) -> Self {
        Self::Rule(error)
    }
}

impl Catalog {
    /// Commits if all went well; otherwise nothing of the transaction happened.
    pub(crate) async fn finish<T>(
        &self,
        transaction: DatabaseTransaction,
        outcome: Result<T, Abort>,
    ) -> Result<T, ChangeError> {
        match outcome {
            Ok(done) => {
                self.commit(transaction).await?;
                Ok(done)
            }
            Err(abort) => {
                // Dropping it would do the same, later.
                if let Err(error) = transaction.rollback().await {
                    tracing::warn!(%error, "rolling back failed; the connection is given up");
                }
                Err(self.reason(abort))
            }
        }
    }

    /// What to tell whoever asked.
    pub(crate) fn reason(&self, abort: Abort) -> ChangeError {
        match abort {
            Abort::Database(error) => self.error(&error).into(),
            Abort::Rule(error) => error,
        }
    }
}

/// Locks the rows that are about to be changed until the transaction ends: PostgreSQL the rows,
/// SQLite is locked whole from the start.
pub(crate) fn locked<E: EntityTrait>(within: &DatabaseTransaction, query: Select<E>) -> Select<E> {
    if within.get_database_backend() == DbBackend::Postgres {
        query.lock_exclusive()
    } else {
        query
    }
}
