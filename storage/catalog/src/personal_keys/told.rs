//! Which organizations' logs tell of a key, and what is locked so that they can.
//!
//! A log goes with its organization. What is written beside the deletion would stay for ever, so
//! organizations that are told cannot be deleted until the transaction has ended.

use crate::activity::Deed;
use crate::actor::Actor;
use crate::catalog::Catalog;
use crate::entities::personal_api_keys as keys;
use crate::entities::{organization_memberships as memberships, organizations, users};
use crate::transaction::locked;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{LockBehavior, LockType};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect, Select,
};

/// In how many organizations' logs a key's changes are written at most, oldest memberships first.
const ORGANIZATIONS_TOLD_MAX: u64 = 100;

impl Catalog {
    /// Writes a key's deed into the logs of the organizations that it reaches, or reached
    /// `before`: a key belongs to its owner, but those are whom it concerns. None of them is told
    /// of the others, and none that is deleted at this moment: its log goes with it.
    pub(crate) async fn record_of_key(
        &self,
        within: &DatabaseTransaction,
        actor: &Actor,
        deed: Deed,
        key: &keys::Model,
        before: Option<&keys::Model>,
    ) -> Result<(), DbErr> {
        let mut reached = joined_by(key.user_id);
        let scoped = [Some(key), before].into_iter().flatten();
        let scoped: Option<Vec<_>> = scoped
            .map(|key| key.scoped_organizations.as_ref())
            .collect();
        if let Some(only) = scoped {
            let only = only.into_iter().flat_map(|ids| ids.0.iter().copied());
            reached = reached.filter(memberships::Column::OrganizationId.is_in(only));
        }
        let reached: Vec<Uuid> = reached
            .limit(ORGANIZATIONS_TOLD_MAX)
            .into_tuple()
            .all(within)
            .await?;
        // Those that the owner joined since the lock are not waited for: that could be for ever.
        let reached = staying(within, reached, Some(LockBehavior::SkipLocked)).await?;
        for id in &reached {
            self.record(within, actor, deed.seen_by(Some(*id))).await?;
        }
        if reached.is_empty() {
            self.record(within, actor, deed).await?;
        }
        Ok(())
    }
}

/// Locks a user, so that the keys of one are changed one after the other. The user's organizations
/// come first, as whoever changes one locks it before its people.
pub(super) async fn lock_user(within: &DatabaseTransaction, user_id: i64) -> Result<(), DbErr> {
    let joined: Vec<Uuid> = joined_by(user_id).into_tuple().all(within).await?;
    staying(within, joined, None).await?;
    let query = locked(within, users::Entity::find_by_id(user_id));
    query.one(within).await.map(drop)
}

/// The organizations of a user, oldest memberships first.
fn joined_by(user_id: i64) -> Select<memberships::Entity> {
    memberships::Entity::find()
        .select_only()
        .column(memberships::Column::OrganizationId)
        .filter(memberships::Column::UserId.eq(user_id))
        .order_by_asc(memberships::Column::JoinedAt)
        .order_by_asc(memberships::Column::Id)
}

/// Those of the organizations that are there, and stay until the transaction ends: SQLite is locked
/// whole, PostgreSQL their rows as if something referred to them. In one order for all, in which
/// the counts of their entries are locked, too.
async fn staying(
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
