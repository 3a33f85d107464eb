//! Copy of a catalog to another database, for servers to go on with there: all rows in one
//! transaction, with their ids and the id of the catalog.
//!
//! | Module | Holds |
//! |---|---|
//! | `tables` | the tables, and the copy of one, page by page |
//! | `last_ids` | the numbers of the last rows, which the next rows must not have |
//! | `error` | [`CopyError`] |
//!
//! The former catalog gets another id at last: with two of one id, each would go on with the same
//! numbers, and a server with the former one would be taken for one with the copy.

mod error;
mod last_ids;
mod tables;

pub use error::CopyError;

use crate::catalog::Catalog;
use crate::connect::begin_write;
use crate::database_clock::clock;
use crate::entities::{catalog_ids, leases};
use crate::error::CatalogError;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, EntityTrait, IsolationLevel,
    QueryFilter, TransactionOptions, TransactionTrait,
};
use tables::RowCopy;

/// Has PostgreSQL run triggers with each statement, and not at the end, when they would count
/// entries once more whose counts were copied.
const TRIGGERS_AT_ONCE: &str = "SET CONSTRAINTS ALL IMMEDIATE";

impl Catalog {
    /// Copies all rows to a catalog that has none, and returns their number. Servers must have been
    /// stopped, both for this catalog and for the other one.
    ///
    /// # Errors
    ///
    /// Any database error, the other catalog has rows, or a process has a lease of this one.
    pub async fn copy_rows_to(&self, to: &Self) -> Result<u64, CopyError> {
        let read = self.begin_snapshot().await;
        let read = read.map_err(|error| self.error(&error))?;
        self.must_be_idle(&read).await?;
        let write = to.begin().await?;
        if write.get_database_backend() == DbBackend::Postgres {
            let set = write.execute_unprepared(TRIGGERS_AT_ONCE).await;
            set.map_err(|error| to.error(&error))?;
        }
        let rows = RowCopy::new((self, &read), (to, &write)).run().await?;
        last_ids::copy((self, &read), (to, &write)).await?;
        to.commit(write).await?;
        let renamed = self.take_new_id(read).await;
        renamed.map_err(|reason| CopyError::IdKept {
            location: self.location.to_string(),
            reason,
        })?;
        Ok(rows)
    }

    /// Begins a transaction that sees one state of the catalog. In SQLite nobody else can write
    /// meanwhile.
    async fn begin_snapshot(&self) -> Result<DatabaseTransaction, DbErr> {
        if self.writer.get_database_backend() != DbBackend::Postgres {
            return begin_write(&self.writer).await;
        }
        self.writer
            .begin_with_options(TransactionOptions {
                isolation_level: Some(IsolationLevel::RepeatableRead),
                ..TransactionOptions::default()
            })
            .await
    }

    /// Fails while a process leads one of the works that one does at a time.
    async fn must_be_idle(&self, within: &DatabaseTransaction) -> Result<(), CopyError> {
        let held = leases::Entity::find()
            .filter(Expr::col(leases::Column::LapsesAt).gt(clock(within)))
            .one(within)
            .await;
        match held.map_err(|error| self.error(&error))? {
            None => Ok(()),
            Some(lease) => Err(CopyError::InUse {
                location: self.location.to_string(),
                lease: lease.name,
            }),
        }
    }

    /// Gives this catalog another id, and ends the transaction.
    async fn take_new_id(&self, within: DatabaseTransaction) -> Result<(), CatalogError> {
        let renamed = catalog_ids::Entity::update_many()
            .col_expr(catalog_ids::Column::Id, Expr::value(Uuid::new_v4()))
            .exec(&within)
            .await;
        renamed.map_err(|error| self.error(&error))?;
        self.commit(within).await
    }
}
