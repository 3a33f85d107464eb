//! Users who have nothing any more: no organization, no invite and no key.
//!
//! No change says when a user lost the last of these, as a cascade may have deleted it. A pass over
//! all users notes who has nothing, and the time from which they are kept begins there. Entries of
//! the activity log have the names of users themselves, so they stay as they are.

use super::{ROWS_MAX, USERS_MAX};
use crate::catalog::Catalog;
use crate::database_clock::micros;
use crate::entities::{
    organization_invites as invites, organization_memberships as memberships,
    personal_api_keys as keys, unused_users as unused, users,
};
use crate::error::{CatalogError, ChangeError};
use crate::personal_keys::in_force;
use crate::time::UtcTime;
use crate::transaction::Abort;
use sea_orm::sea_query::{Condition, Expr, ExprTrait, LockBehavior, LockType, OnConflict};
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend,
    DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait, Select,
};
use std::collections::BTreeSet;
use std::time::Duration;

impl Catalog {
    /// Looks at the next 2 000 users behind the number `after`: notes those who have nothing, from
    /// now on, and forgets those who were noted and have something again. Returns the number of the
    /// last one; `None`: there are no more.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn note_unused_users(&self, after: i64) -> Result<Option<i64>, CatalogError> {
        let noted = self.note_users_behind(after).await;
        noted.map_err(|error| self.error(&error))
    }

    async fn note_users_behind(&self, after: i64) -> Result<Option<i64>, DbErr> {
        let now = self.now();
        let next = users::Entity::find()
            .select_only()
            .column(users::Column::Id)
            .filter(users::Column::Id.gt(after))
            .order_by_asc(users::Column::Id);
        let looked: Vec<i64> = next
            .clone()
            .limit(ROWS_MAX)
            .into_tuple()
            .all(&self.db)
            .await?;
        let Some(last) = looked.last().copied() else {
            return Ok(None);
        };
        let these = next.filter(users::Column::Id.lte(last));
        let in_force = keys::Entity::find().filter(in_force(now));
        let idle = these.filter(has_nothing(in_force)).into_tuple();
        let idle: Vec<i64> = idle.all(&self.db).await?;
        let noted: Vec<i64> = unused::Entity::find()
            .select_only()
            .column(unused::Column::UserId)
            .filter(unused::Column::UserId.gt(after))
            .filter(unused::Column::UserId.lte(last))
            .into_tuple()
            .all(&self.db)
            .await?;
        let (idle, noted) = (BTreeSet::from_iter(idle), BTreeSet::from_iter(noted));
        note(&self.writer, &idle - &noted, now).await?;
        forget(&self.writer, &noted - &idle).await?;
        Ok(Some(last))
    }

    /// Deletes a piece of the users who were noted longer than `kept` ago and have nothing, not
    /// even a key that has ended: at most 250. Answers how many; 0: there are none.
    ///
    /// # Errors
    ///
    /// Any database error; then nothing was deleted.
    pub async fn prune_users(&self, kept: Duration) -> Result<u64, ChangeError> {
        let until = self.now().plus_micros(micros(kept).saturating_neg());
        let noted = unused::Entity::find()
            .select_only()
            .column(unused::Column::UserId)
            .filter(unused::Column::Since.lt(until))
            .into_query();
        let due = users::Entity::find()
            .select_only()
            .column(users::Column::Id)
            .filter(users::Column::Id.in_subquery(noted))
            .filter(has_nothing(keys::Entity::find()))
            .order_by_asc(users::Column::Id)
            .limit(USERS_MAX)
            .into_tuple()
            .all(&self.db)
            .await;
        let due: Vec<i64> = due.map_err(|error| self.error(&error))?;
        if due.is_empty() {
            return Ok(0);
        }
        let transaction = self.begin().await?;
        let deleted = delete(&transaction, due).await;
        self.finish(transaction, deleted.map_err(Abort::from)).await
    }
}

async fn note(db: &DatabaseConnection, ids: BTreeSet<i64>, now: UtcTime) -> Result<(), DbErr> {
    let rows = ids.into_iter().map(|user_id| unused::ActiveModel {
        user_id: ActiveValue::Set(user_id),
        since: ActiveValue::Set(now),
    });
    let mut once = OnConflict::column(unused::Column::UserId);
    once.do_nothing();
    // Nothing is sent if there are no rows.
    let noted = unused::Entity::insert_many(rows).on_conflict(once);
    noted.exec_without_returning(db).await.map(drop)
}

async fn forget(db: &DatabaseConnection, ids: BTreeSet<i64>) -> Result<(), DbErr> {
    if ids.is_empty() {
        return Ok(());
    }
    let noted = unused::Entity::delete_many().filter(unused::Column::UserId.is_in(ids));
    noted.exec(db).await.map(drop)
}

/// Deletes those users who still have nothing.
///
/// Users are locked before they are looked at, by another statement, which sees what was committed
/// before: a membership or a key that somebody else inserts waits for the lock. Users whom others
/// hold are skipped.
async fn delete(within: &DatabaseTransaction, due: Vec<i64>) -> Result<u64, DbErr> {
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
        .filter(has_nothing(keys::Entity::find()))
        .into_tuple()
        .all(within)
        .await?;
    if idle.is_empty() {
        return Ok(0);
    }
    let gone = users::Entity::delete_many()
        .filter(users::Column::Id.is_in(idle))
        .exec(within)
        .await?;
    let users = gone.rows_affected;
    tracing::info!(users, "deleted users without organization, invite and key");
    Ok(users)
}

/// Condition for users without an organization, an invite and any of these keys. Deletion of one
/// whom the operator has made inactive would let them come back.
fn has_nothing(of_keys: Select<keys::Entity>) -> Condition {
    let user = (users::Entity, users::Column::Id);
    let membership = memberships::Entity::find()
        .select_only()
        .column(memberships::Column::Id)
        .filter(Expr::col((memberships::Entity, memberships::Column::UserId)).equals(user))
        .into_query();
    let key = of_keys
        .select_only()
        .column(keys::Column::Id)
        .filter(Expr::col((keys::Entity, keys::Column::UserId)).equals(user))
        .into_query();
    let address = (users::Entity, users::Column::Email);
    let invite = invites::Entity::find()
        .select_only()
        .column(invites::Column::Id)
        .filter(Expr::col((invites::Entity, invites::Column::EmailKey)).equals(address))
        .into_query();
    Condition::all()
        .add(users::Column::IsActive.eq(true))
        .add(Expr::not_exists(membership))
        .add(Expr::not_exists(key))
        .add(Expr::not_exists(invite))
}
