//! What writing transactions share: rows read to be changed, and errors halfway.

use crate::catalog::Catalog;
use crate::error::ChangeError;
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, EntityTrait, QuerySelect, Select,
};

/// Why the work of a transaction ended early; nothing of it is kept.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The database failed; its place is not known yet.
    Database(DbErr),
    /// A rule was broken.
    Change(ChangeError),
}

impl From<DbErr> for Trouble {
    fn from(error: DbErr) -> Self {
        Self::Database(error)
    }
}

impl From<ChangeError> for Trouble {
    fn from(error: ChangeError) -> Self {
        Self::Change(error)
    }
}

impl Catalog {
    /// What the caller is told.
    pub(crate) fn settled(&self, trouble: Trouble) -> ChangeError {
        match trouble {
            Trouble::Database(error) => self.error(&error).into(),
            Trouble::Change(error) => error,
        }
    }
}

/// Reads rows that are about to be changed; PostgreSQL locks them, SQLite is locked whole.
pub(crate) fn for_change<E: EntityTrait>(
    within: &DatabaseTransaction,
    query: Select<E>,
) -> Select<E> {
    match within.get_database_backend() {
        DbBackend::Postgres => query.lock_exclusive(),
        _ => query,
    }
}
