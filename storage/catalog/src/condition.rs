//! Conditions of changes: what must still be so at the moment of a change, whoever else changes the same thing.
//!
//! A catalog [with a condition](Catalog::on_condition) looks once more in each transaction in which it writes,
//! behind the locks that all changes of the thing take, in other processes as well: SQLite is locked whole,
//! in PostgreSQL the rows of [`ConditionLocks`] are. What is looked at is what was committed by then, and
//! nobody can change it until the transaction ends.
//!
//! The look has connections of its own: those of changes may all wait for the very lock that is held here.

use crate::catalog::Catalog;
use crate::entities::{batch_exports, organizations, users};
use crate::error::CatalogError;
use crate::transaction::locked;
use sea_orm::prelude::Uuid;
use sea_orm::{DatabaseTransaction, DbErr, EntityTrait};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// Outcome of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The change may be made.
    Holds,
    /// It may not: somebody else was faster.
    Broken,
    /// That could not be learned.
    Unknown,
}

/// Rows behind which all changes of a thing are decided, in the order in which they are locked.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConditionLocks {
    /// The thing's organization; `None`: it belongs to none.
    pub organization_id: Option<Uuid>,
    /// Owner of a personal key.
    pub user_id: Option<i64>,
    /// A batch export, as its runs change it behind its own lock.
    pub batch_export_id: Option<Uuid>,
}

type Looking = Pin<Box<dyn Future<Output = Standing> + Send>>;

/// A condition and what keeps it from breaking.
#[derive(Clone)]
pub(crate) struct Condition {
    locks: ConditionLocks,
    look: Arc<dyn Fn(Catalog) -> Looking + Send + Sync>,
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Condition({:?})", self.locks)
    }
}

impl Catalog {
    /// A catalog that changes something only if `look` says so when nobody else can change it any more; otherwise
    /// changes fail with [`CatalogError::ConditionBroken`]. `look` is given a catalog to read from.
    #[must_use]
    pub fn on_condition<L, F>(mut self, locks: ConditionLocks, look: L) -> Self
    where
        L: Fn(Catalog) -> F + Send + Sync + 'static,
        F: Future<Output = Standing> + Send + 'static,
    {
        let look = Arc::new(move |catalog| -> Looking { Box::pin(look(catalog)) });
        self.condition = Some(Condition { locks, look });
        self
    }

    /// Looks whether the condition holds, if there is one, and keeps it so until the transaction ends.
    pub(crate) async fn must_hold(&self, within: &DatabaseTransaction) -> Result<(), CatalogError> {
        let Some(Condition { locks, look }) = &self.condition else {
            return Ok(());
        };
        let locked = lock(within, *locks).await;
        locked.map_err(|error| self.error(&error))?;
        let mut reader = self.clone();
        reader.db = self.lookouts.clone();
        reader.condition = None;
        match look(reader).await {
            Standing::Holds => Ok(()),
            Standing::Broken => Err(CatalogError::ConditionBroken),
            Standing::Unknown => Err(CatalogError::Unreachable {
                place: self.place.to_string(),
                reason: "the version of what is changed could not be read".to_owned(),
            }),
        }
    }
}

async fn lock(within: &DatabaseTransaction, locks: ConditionLocks) -> Result<(), DbErr> {
    if let Some(id) = locks.organization_id {
        let row = organizations::Entity::find_by_id(id);
        locked(within, row).one(within).await?;
    }
    if let Some(id) = locks.user_id {
        let row = users::Entity::find_by_id(id);
        locked(within, row).one(within).await?;
    }
    if let Some(id) = locks.batch_export_id {
        let row = batch_exports::Entity::find_by_id(id);
        locked(within, row).one(within).await?;
    }
    Ok(())
}
