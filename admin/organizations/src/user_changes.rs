//! Changes of what belongs to a user and not to an organization, as keys and sessions: locks, and
//! audit entries in the logs of the user's organizations.
//!
//! A log is deleted with its organization. An entry that is written during the deletion would stay
//! for ever, so the organizations of the entries are locked against deletion until the transaction
//! ends.

use millrace_catalog::entities::{organization_memberships as memberships, organizations, users};
use millrace_catalog::transaction::locked;
use millrace_catalog::{Actor, AuditChange, Catalog};
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{LockBehavior, LockType};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect, Select,
};

/// Most organizations in whose logs a change is written, oldest memberships first.
const ORGANIZATIONS_LOGGED_MAX: u64 = 100;

/// Writes an entry into the logs of the organizations of these memberships, the first of them if
/// there are many. The user of the memberships is locked.
pub(crate) async fn record_in(
    catalog: &Catalog,
    within: &DatabaseTransaction,
    actor: &Actor,
    audit: AuditChange,
    reached: Select<memberships::Entity>,
) -> Result<(), DbErr> {
    let reached: Vec<Uuid> = reached
        .limit(ORGANIZATIONS_LOGGED_MAX)
        .into_tuple()
        .all(within)
        .await?;
    // Organizations that the user joined since the lock are not waited for, which could deadlock.
    let reached = lock_existing(within, reached, Some(LockBehavior::SkipLocked)).await?;
    for id in &reached {
        catalog
            .record(within, actor, audit.narrowed_to(Some(*id)))
            .await?;
    }
    if reached.is_empty() {
        catalog.record(within, actor, audit).await?;
    }
    Ok(())
}

/// Locks a user, so that the user's keys and sessions are changed one after the other. The user's
/// organizations are locked first, as changes of one lock it before its members.
pub(crate) async fn lock_user(within: &DatabaseTransaction, user_id: i64) -> Result<(), DbErr> {
    let joined: Vec<Uuid> = joined_by(user_id).into_tuple().all(within).await?;
    lock_existing(within, joined, None).await?;
    let query = locked(within, users::Entity::find_by_id(user_id));
    query.one(within).await.map(drop)
}

/// Query for the ids of a user's organizations, oldest memberships first.
pub(crate) fn joined_by(user_id: i64) -> Select<memberships::Entity> {
    memberships::Entity::find()
        .select_only()
        .column(memberships::Column::OrganizationId)
        .filter(memberships::Column::UserId.eq(user_id))
        .order_by_asc(memberships::Column::JoinedAt)
        .order_by_asc(memberships::Column::Id)
}

/// Locks organizations against deletion until the transaction ends, and returns the existing ones:
/// SQLite is locked whole; in PostgreSQL, their rows are locked as if something referred to them.
/// Rows are locked in one order everywhere, in which the counts of entries are locked, too.
async fn lock_existing(
    within: &DatabaseTransaction,
    ids: Vec<Uuid>,
    behavior: Option<LockBehavior>,
) -> Result<Vec<Uuid>, DbErr> {
    let mut query = organizations::Entity::find()
        .select_only()
        .column(organizations::Column::Id)
        .filter(organizations::Column::Id.is_in(ids))
        .order_by_asc(organizations::Column::Id);
    if within.get_database_backend() == DbBackend::Postgres {
        query = match behavior {
            Some(behavior) => query.lock_with_behavior(LockType::KeyShare, behavior),
            None => query.lock(LockType::KeyShare),
        };
    }
    query.into_tuple().all(within).await
}
