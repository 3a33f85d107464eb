//! Writing transactions: begin, locks, permissions, commit and rollback.

use crate::actor::Actor;
use crate::catalog::Catalog;
use crate::connect::begin_write;
use crate::entities::{organization_memberships as memberships, organizations};
use crate::error::{CatalogError, ChangeError};
use crate::level::Level;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{LockBehavior, LockType};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, EntityTrait, QueryFilter,
    QuerySelect, Select,
};

/// Time limit of one statement as a whole, longer than any takes.
const STATEMENT_LIMIT: &str = "SET LOCAL statement_timeout = '20s'";
/// Time limits of one statement: as before, and for locks of rows shorter than a claim of a run
/// lasts.
const STATEMENT_LIMITS: &str = "SET LOCAL lock_timeout = '3s'; SET LOCAL statement_timeout = '20s'";

/// Reason why a transaction was not committed.
#[derive(Debug)]
pub enum Abort {
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

impl From<CatalogError> for Abort {
    fn from(error: CatalogError) -> Self {
        Self::Rule(error.into())
    }
}

impl From<getrandom::Error> for Abort {
    fn from(error: getrandom::Error) -> Self {
        Self::Rule(error.into())
    }
}

impl Catalog {
    /// Begins a writing transaction. It begins even if its caller is cancelled, and is then rolled
    /// back: on PostgreSQL, sqlx forgets a transaction whose begin was not awaited, and the next
    /// user of the connection would write into it.
    ///
    /// # Errors
    ///
    /// Any database error, or the condition of the catalog does not hold.
    pub async fn begin(&self) -> Result<DatabaseTransaction, CatalogError> {
        let writer = self.writer.clone();
        let beginning = self
            .runtime()
            .spawn(async move { begin_write(&writer).await });
        let begun = match beginning.await {
            Ok(begun) => begun,
            Err(error) => Err(DbErr::Custom(error.to_string())),
        };
        let transaction = begun.map_err(|error| self.error(&error))?;
        match self.must_hold(&transaction).await {
            Ok(()) => Ok(transaction),
            Err(error) => {
                // Nothing was written.
                let _ = transaction.rollback().await;
                Err(error)
            }
        }
    }

    /// Begins a writing transaction of exports or import quotas, whose statements PostgreSQL ends
    /// after a time: a row that somebody holds holds up one export or project, and no connection
    /// for ever. A transaction of SQLite waits for its begin alone, which has a time limit.
    ///
    /// # Errors
    ///
    /// As [`Catalog::begin`].
    pub async fn begin_bounded(&self) -> Result<DatabaseTransaction, CatalogError> {
        self.begin_with(STATEMENT_LIMITS).await
    }

    /// Begins a transaction like [`Catalog::begin_bounded`], which waits for locks as long as a
    /// statement may take: one that gave up would lose its place among those that wait.
    ///
    /// # Errors
    ///
    /// As [`Catalog::begin`].
    pub async fn begin_queued(&self) -> Result<DatabaseTransaction, CatalogError> {
        self.begin_with(STATEMENT_LIMIT).await
    }

    async fn begin_with(&self, limits: &str) -> Result<DatabaseTransaction, CatalogError> {
        let transaction = self.begin().await?;
        if transaction.get_database_backend() != DbBackend::Postgres {
            return Ok(transaction);
        }
        match transaction.execute_unprepared(limits).await {
            Ok(_) => Ok(transaction),
            Err(error) => {
                // Nothing was written.
                let _ = transaction.rollback().await;
                Err(self.error(&error))
            }
        }
    }

    /// Commits the transaction.
    ///
    /// # Errors
    ///
    /// Any database error; then it is unknown whether it was committed.
    pub async fn commit(&self, transaction: DatabaseTransaction) -> Result<(), CatalogError> {
        let committed = transaction.commit().await;
        committed.map_err(|error| self.error(&error))
    }

    /// Commits the transaction after a success; rolls it back after an abort.
    ///
    /// # Errors
    ///
    /// The reason of the abort, or any database error.
    pub async fn finish<T>(
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
                // Dropping it would roll back as well, only later. It also fails if the database
                // rolled back by itself.
                if let Err(error) = transaction.rollback().await {
                    tracing::warn!(%error, "rolling back failed; the connection is given up");
                }
                Err(self.reason(abort))
            }
        }
    }

    /// Converts an abort to the caller's error.
    #[must_use]
    pub fn reason(&self, abort: Abort) -> ChangeError {
        match abort {
            Abort::Database(error) => self.error(&error).into(),
            Abort::Rule(error) => error,
        }
    }
}

/// Locks the rows of a query until the transaction ends: in PostgreSQL the rows; SQLite is locked
/// whole from the start.
pub fn locked<E: EntityTrait>(within: &DatabaseTransaction, query: Select<E>) -> Select<E> {
    if within.get_database_backend() == DbBackend::Postgres {
        query.lock_exclusive()
    } else {
        query
    }
}

/// Locks the rows of a query like [`locked`], but only those that no other transaction has locked.
pub fn locked_if_free<E: EntityTrait>(within: &DatabaseTransaction, query: Select<E>) -> Select<E> {
    if within.get_database_backend() == DbBackend::Postgres {
        query.lock_with_behavior(LockType::Update, LockBehavior::SkipLocked)
    } else {
        query
    }
}

/// Reads and locks an organization. Changes of its members and resources are decided behind this
/// lock, one after the other.
///
/// # Errors
///
/// No such organization, or any database error.
pub async fn lock_organization(
    within: &DatabaseTransaction,
    id: Uuid,
) -> Result<organizations::Model, Abort> {
    let query = locked(within, organizations::Entity::find_by_id(id));
    let found = query.one(within).await?;
    found.ok_or_else(|| ChangeError::not_found("organization", &id).into())
}

/// Level with which an actor acts in an organization at this moment: a user's own; the operator has
/// the highest.
///
/// # Errors
///
/// The actor is no member, or any database error.
pub async fn acting_level(
    within: &DatabaseTransaction,
    actor: &Actor,
    organization_id: Uuid,
) -> Result<Level, Abort> {
    let Some(user_id) = actor.user_id() else {
        return Ok(Level::Owner);
    };
    let membership = memberships::Entity::find()
        .filter(memberships::Column::OrganizationId.eq(organization_id))
        .filter(memberships::Column::UserId.eq(user_id))
        .one(within)
        .await?;
    let level = membership.map(|membership| membership.level);
    level.ok_or_else(|| ChangeError::forbidden("You are not a member of this organization.").into())
}

/// Refuses an actor who may not write plugins and exports at this moment. Locks the organization,
/// and returns it for checks of its features.
///
/// # Errors
///
/// No such organization, the actor may not, or any database error.
pub async fn admit_to_pipelines(
    within: &DatabaseTransaction,
    actor: &Actor,
    organization_id: Uuid,
) -> Result<organizations::Model, Abort> {
    let organization = lock_organization(within, organization_id).await?;
    let least = if organization.members_can_write_pipelines {
        Level::Member
    } else {
        Level::Administrator
    };
    must_act_as(within, actor, organization_id, least).await?;
    Ok(organization)
}

/// Refuses an actor below this level.
///
/// # Errors
///
/// The actor may not, or any database error.
pub async fn must_act_as(
    within: &DatabaseTransaction,
    actor: &Actor,
    organization_id: Uuid,
    least: Level,
) -> Result<Level, Abort> {
    let level = acting_level(within, actor, organization_id).await?;
    if level >= least {
        return Ok(level);
    }
    let detail = format!("This needs level {} ({least}).", least.number());
    Err(ChangeError::forbidden(detail).into())
}
