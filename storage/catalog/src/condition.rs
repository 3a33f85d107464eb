//! Conditions of changes (optimistic concurrency): facts that must still hold when a change is
//! made, whoever else changes the same resource.
//!
//! A catalog [with a condition](Catalog::on_condition) checks it in each transaction in which it
//! writes, behind the locks that all changes of the resource take, in other processes as well:
//! SQLite is locked whole, in PostgreSQL the rows of [`ConditionLocks`] are. The check sees what
//! was committed by then, and nobody can change it until the transaction ends.
//!
//! The check has connections of its own: those of changes may all wait for the very lock that is
//! held here.

use crate::catalog::{Catalog, CheckFuture, Condition};
use crate::condition_locks::{ConditionLocks, ConditionOutcome};
use crate::entities::{batch_exports, organizations, users};
use crate::error::CatalogError;
use crate::transaction::locked;
use sea_orm::{DatabaseTransaction, DbErr, EntityTrait};
use std::future::Future;
use std::sync::Arc;

impl Catalog {
    /// Makes changes depend on `check`, which runs when nobody else can change the resource any
    /// more. Unless it returns [`ConditionOutcome::Holds`], changes fail, with
    /// [`CatalogError::ConditionBroken`] if it is broken. `check` is given a catalog to read from.
    #[must_use]
    pub fn on_condition<L, F>(mut self, locks: ConditionLocks, check: L) -> Self
    where
        L: Fn(Catalog) -> F + Send + Sync + 'static,
        F: Future<Output = ConditionOutcome> + Send + 'static,
    {
        let check = Arc::new(move |catalog| -> CheckFuture { Box::pin(check(catalog)) });
        self.condition = Some(Condition { locks, check });
        self
    }

    /// Checks the condition, if there is one; it holds until the transaction ends.
    pub(crate) async fn must_hold(&self, within: &DatabaseTransaction) -> Result<(), CatalogError> {
        let Some(Condition { locks, check }) = &self.condition else {
            return Ok(());
        };
        let locked = lock(within, *locks).await;
        locked.map_err(|error| self.error(&error))?;
        let mut reader = self.clone();
        reader.db = self.reserve_db.clone();
        reader.condition = None;
        match check(reader).await {
            ConditionOutcome::Holds => Ok(()),
            ConditionOutcome::Broken => Err(CatalogError::ConditionBroken),
            ConditionOutcome::Unknown => Err(CatalogError::Unreachable {
                location: self.location.to_string(),
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
