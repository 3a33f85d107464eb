//! Rows that nobody needs any more: of revoked personal keys, of users who have nothing, and of
//! counted bytes of responses that are forgotten.
//!
//! Entries of the activity log have the names of users and keys themselves, so they stay as they
//! are.

use super::{ROWS_MAX, USERS_MAX};
use crate::catalog::Catalog;
use crate::database_clock::micros;
use crate::entities::{
    idempotency_bytes, organization_invites as invites, organization_memberships as memberships,
    personal_api_keys as keys, unused_users as unused, users,
};
use crate::error::ChangeError;
use crate::idempotency::RESPONSES_COUNTED_MICROS;
use crate::personal_keys::in_force;
use crate::time::UtcTime;
use crate::transaction::Abort;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Condition, Expr, ExprTrait, LockBehavior, LockType, OnConflict};
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, EntityTrait,
    QueryFilter, QueryOrder, QuerySelect, QueryTrait,
};
use std::time::Duration;

impl Catalog {
    /// Deletes a piece of the keys that were revoked longer than `kept` ago and of the users who
    /// have had nothing for as long, or notes users who have nothing since now. Answers how many
    /// rows; 0: nothing is left to do.
    ///
    /// A user has nothing without an organization, an invite and a key in force.
    ///
    /// # Errors
    ///
    /// Any database error; then nothing was deleted.
    pub async fn prune_people(&self, kept: Duration) -> Result<u64, ChangeError> {
        let now = self.now();
        let until = now.plus_micros(micros(kept).saturating_neg());
        let pruned = async {
            let mut rows = self.delete_revoked_keys(until).await?;
            if rows == 0 {
                rows = self.forget_used(now).await?;
            }
            if rows == 0 {
                rows = self.note_unused(now).await?;
            }
            if rows == 0 {
                rows = self.delete_unused(until, now).await?;
            }
            if rows == 0 {
                rows = self.delete_counted_bytes(now).await?;
            }
            Ok(rows)
        };
        let pruned: Result<u64, Abort> = pruned.await;
        pruned.map_err(|abort| self.reason(abort))
    }

    async fn delete_revoked_keys(&self, until: UtcTime) -> Result<u64, DbErr> {
        // Read apart, so that nothing is locked where nothing is old.
        let old: Vec<Uuid> = keys::Entity::find()
            .select_only()
            .column(keys::Column::Id)
            .filter(keys::Column::RevokedAt.lt(until))
            .limit(ROWS_MAX)
            .into_tuple()
            .all(&self.db)
            .await?;
        if old.is_empty() {
            return Ok(0);
        }
        delete_keys(&self.writer, old).await
    }

    /// Forgets users who were noted and have something again.
    async fn forget_used(&self, now: UtcTime) -> Result<u64, DbErr> {
        let noted = unused::Entity::find()
            .select_only()
            .column(unused::Column::UserId)
            .into_query();
        let used: Vec<i64> = users::Entity::find()
            .select_only()
            .column(users::Column::Id)
            .filter(users::Column::Id.in_subquery(noted))
            .filter(has_nothing(now).not())
            .limit(ROWS_MAX)
            .into_tuple()
            .all(&self.db)
            .await?;
        if used.is_empty() {
            return Ok(0);
        }
        let gone = unused::Entity::delete_many()
            .filter(unused::Column::UserId.is_in(used))
            .exec(&self.writer)
            .await?;
        Ok(gone.rows_affected)
    }

    /// Notes users who have nothing, from now on.
    async fn note_unused(&self, now: UtcTime) -> Result<u64, DbErr> {
        let noted = unused::Entity::find()
            .select_only()
            .column(unused::Column::UserId)
            .into_query();
        let idle: Vec<i64> = users::Entity::find()
            .select_only()
            .column(users::Column::Id)
            .filter(users::Column::Id.not_in_subquery(noted))
            .filter(has_nothing(now))
            .limit(ROWS_MAX)
            .into_tuple()
            .all(&self.db)
            .await?;
        if idle.is_empty() {
            return Ok(0);
        }
        let rows = idle.into_iter().map(|user_id| unused::ActiveModel {
            user_id: ActiveValue::Set(user_id),
            since: ActiveValue::Set(now),
        });
        let mut once = OnConflict::column(unused::Column::UserId);
        once.do_nothing();
        unused::Entity::insert_many(rows)
            .on_conflict(once)
            .exec_without_returning(&self.writer)
            .await
    }

    async fn delete_unused(&self, until: UtcTime, now: UtcTime) -> Result<u64, Abort> {
        let due: Vec<i64> = unused::Entity::find()
            .select_only()
            .column(unused::Column::UserId)
            .filter(unused::Column::Since.lt(until))
            .order_by_asc(unused::Column::UserId)
            .limit(USERS_MAX)
            .into_tuple()
            .all(&self.db)
            .await?;
        if due.is_empty() {
            return Ok(0);
        }
        let transaction = self.begin().await?;
        let deleted = delete_users(&transaction, due, now).await;
        Ok(self.finish(transaction, deleted).await?)
    }

    /// Deletes the counts of the oldest hour, if none of its responses is stored any more.
    async fn delete_counted_bytes(&self, now: UtcTime) -> Result<u64, DbErr> {
        use idempotency_bytes::{Column, Entity};
        let until = now.plus_micros(-RESPONSES_COUNTED_MICROS);
        let oldest = Entity::find()
            .filter(Column::Hour.lte(until))
            .order_by_asc(Column::Hour)
            .one(&self.db)
            .await?;
        let Some(oldest) = oldest else {
            return Ok(0);
        };
        let gone = Entity::delete_many()
            .filter(Column::Hour.eq(oldest.hour))
            .exec(&self.writer)
            .await?;
        Ok(gone.rows_affected)
    }
}

/// Deletes those users who still have nothing, or first a piece of their keys, which a cascade
/// would delete with them however many there are.
///
/// Users are locked before they are looked at, by another statement, which sees what was committed
/// before: a membership or a key that somebody else inserts waits for the lock. Users whom others
/// hold are skipped.
async fn delete_users(
    within: &DatabaseTransaction,
    due: Vec<i64>,
    now: UtcTime,
) -> Result<u64, Abort> {
    let mut locked = users::Entity::find()
        .select_only()
        .column(users::Column::Id)
        .filter(users::Column::Id.is_in(due))
        .order_by_asc(users::Column::Id);
    if within.get_database_backend() == DbBackend::Postgres {
        locked = locked.lock_with_behavior(LockType::Update, LockBehavior::SkipLocked);
    }
    let locked: Vec<i64> = locked.into_tuple().all(within).await?;
    let idle: Vec<i64> = users::Entity::find()
        .select_only()
        .column(users::Column::Id)
        .filter(users::Column::Id.is_in(locked))
        .filter(has_nothing(now))
        .into_tuple()
        .all(within)
        .await?;
    let ended: Vec<Uuid> = keys::Entity::find()
        .select_only()
        .column(keys::Column::Id)
        .filter(keys::Column::UserId.is_in(idle.iter().copied()))
        .limit(ROWS_MAX)
        .into_tuple()
        .all(within)
        .await?;
    if !ended.is_empty() {
        return Ok(delete_keys(within, ended).await?);
    }
    let gone = users::Entity::delete_many()
        .filter(users::Column::Id.is_in(idle))
        .exec(within)
        .await?;
    if gone.rows_affected > 0 {
        let users = gone.rows_affected;
        tracing::info!(users, "deleted users without organization, invite and key");
    }
    Ok(gone.rows_affected)
}

async fn delete_keys<C: ConnectionTrait>(db: &C, ids: Vec<Uuid>) -> Result<u64, DbErr> {
    let gone = keys::Entity::delete_many()
        .filter(keys::Column::Id.is_in(ids))
        .exec(db)
        .await?;
    tracing::info!(keys = gone.rows_affected, "deleted rows of ended keys");
    Ok(gone.rows_affected)
}

/// Condition for users without an organization, an invite and a key in force.
fn has_nothing(now: UtcTime) -> Condition {
    let user = (users::Entity, users::Column::Id);
    let membership = memberships::Entity::find()
        .select_only()
        .column(memberships::Column::Id)
        .filter(Expr::col((memberships::Entity, memberships::Column::UserId)).equals(user))
        .into_query();
    let key = keys::Entity::find()
        .select_only()
        .column(keys::Column::Id)
        .filter(Expr::col((keys::Entity, keys::Column::UserId)).equals(user))
        .filter(in_force(now))
        .into_query();
    let address = (users::Entity, users::Column::Email);
    let invite = invites::Entity::find()
        .select_only()
        .column(invites::Column::Id)
        .filter(Expr::col((invites::Entity, invites::Column::EmailKey)).equals(address))
        .into_query();
    Condition::all()
        .add(Expr::not_exists(membership))
        .add(Expr::not_exists(key))
        .add(Expr::not_exists(invite))
}
