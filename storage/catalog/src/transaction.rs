//! Transactions that write: begun, ended, and why they were not committed.

use crate::actor::Actor;
use crate::catalog::Catalog;
use crate::connect::begin_write;
use crate::entities::{organization_memberships as memberships, organizations};
use crate::error::{CatalogError, ChangeError};
use crate::level::Level;
use sea_orm::prelude::Uuid;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, EntityTrait, QueryFilter,
    QuerySelect, Select,
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
    /// Begins a transaction that will write. Whoever stops to wait for it leaves nothing open: on
    /// PostgreSQL, sqlx forgets a transaction whose begin was not waited for, and the next who gets
    /// the connection would write into it. So it begins in any case, and is rolled back if nobody
    /// takes it.
    pub(crate) async fn begin(&self) -> Result<DatabaseTransaction, CatalogError> {
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

    pub(crate) async fn commit(
        &self,
        transaction: DatabaseTransaction,
    ) -> Result<(), CatalogError> {
        let committed = transaction.commit().await;
        committed.map_err(|error| self.error(&error))
    }

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
                // Dropping it would do the same, later. It fails also if the database rolled back itself.
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

/// Reads and locks an organization. Whatever must be decided about its people and things is
/// decided behind this lock, one change after the other.
pub(crate) async fn lock_organization(
    within: &DatabaseTransaction,
    id: Uuid,
) -> Result<organizations::Model, Abort> {
    let query = locked(within, organizations::Entity::find_by_id(id));
    let found = query.one(within).await?;
    found.ok_or_else(|| ChangeError::not_found("organization", &id).into())
}

/// The level with which an actor acts in an organization at this moment: a person's own; the
/// operator may do everything.
pub(crate) async fn acting_level(
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
    level.ok_or_else(|| ChangeError::forbidden("You are no member of this organization.").into())
}

/// Lets an actor pass who may write plugins and exports at this moment, and makes all others who
/// would change the organization wait until the transaction ends; answers it as it is now, for what takes
/// a feature.
pub(crate) async fn admit_to_pipelines(
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

/// Lets an actor of at least this level pass.
pub(crate) async fn must_act_as(
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
