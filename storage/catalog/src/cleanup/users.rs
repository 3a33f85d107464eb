//! Users who have nothing any more: no organization, no invite and no key.
//!
//! No change says when a user lost the last of these, as a cascade may have deleted it. A pass over
//! all users notes who has nothing, and the time for which they are kept begins there. It ends with
//! a membership or a key, in the transaction that adds it. Entries of the activity log have the
//! names of users themselves, so they stay as they are.

use super::in_force::in_force;
use super::{Cleanup, ROWS_MAX, USERS_MAX};
use crate::database_clock::micros;
use crate::entities::{
    organization_invites as invites, organization_memberships as memberships,
    personal_api_keys as keys, unused_users as unused, users,
};
use crate::error::{CatalogError, ChangeError};
use crate::time::UtcTime;
use crate::transaction::Abort;
use sea_orm::sea_query::{Condition, Expr, ExprTrait, LockBehavior, LockType, OnConflict};
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend,
    DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait, Select,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// Users that a step of a pass has looked at.
struct ScannedUsers {
    /// Number of the last one.
    last: i64,
    /// Users who have nothing.
    idle: BTreeSet<i64>,
    /// Users who had nothing before.
    noted: BTreeSet<i64>,
}

impl Cleanup<'_> {
    /// Looks at the next 2 000 users behind the number `after`: notes those who have nothing, from
    /// now on, and forgets those who were noted and have something again. Returns the number of the
    /// last one; `None`: there are no more.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn note_unused_users(self, after: i64) -> Result<Option<i64>, CatalogError> {
        let now = self.0.now();
        let looked = self.users_behind(after, now).await;
        let Some(looked) = looked.map_err(|error| self.0.error(&error))? else {
            return Ok(None);
        };
        let idle = &looked.idle - &looked.noted;
        if !idle.is_empty() {
            let transaction = self.0.begin().await?;
            let noted = note(&transaction, idle, now).await;
            noted.map_err(|error| self.0.error(&error))?;
            self.0.commit(transaction).await?;
        }
        let forgotten = delete_notes(&self.0.writer, &looked.noted - &looked.idle).await;
        forgotten.map_err(|error| self.0.error(&error))?;
        Ok(Some(looked.last))
    }

    async fn users_behind(self, after: i64, now: UtcTime) -> Result<Option<ScannedUsers>, DbErr> {
        let next = users::Entity::find()
            .select_only()
            .column(users::Column::Id)
            .filter(users::Column::Id.gt(after))
            .order_by_asc(users::Column::Id);
        let looked: Vec<i64> = next
            .clone()
            .limit(ROWS_MAX)
            .into_tuple()
            .all(&self.0.db)
            .await?;
        let Some(last) = looked.last().copied() else {
            return Ok(None);
        };
        let these = next.filter(users::Column::Id.lte(last));
        let in_force = keys::Entity::find().filter(in_force(now));
        let idle = these.filter(has_nothing(in_force)).into_tuple();
        let idle: Vec<i64> = idle.all(&self.0.db).await?;
        let noted: Vec<i64> = unused::Entity::find()
            .select_only()
            .column(unused::Column::UserId)
            .filter(unused::Column::UserId.gt(after))
            .filter(unused::Column::UserId.lte(last))
            .into_tuple()
            .all(&self.0.db)
            .await?;
        let (idle, noted) = (BTreeSet::from_iter(idle), BTreeSet::from_iter(noted));
        Ok(Some(ScannedUsers { last, idle, noted }))
    }

    /// Deletes a piece of the users who were noted longer than `kept` ago and have nothing, not
    /// even a key that has ended: at most 250. Answers how many; 0: there are none.
    ///
    /// # Errors
    ///
    /// Any database error; then nothing was deleted.
    pub async fn prune_users(self, kept: Duration) -> Result<u64, ChangeError> {
        let until = self.0.now().plus_micros(micros(kept).saturating_neg());
        let due = users::Entity::find()
            .select_only()
            .column(users::Column::Id)
            .filter(users::Column::Id.in_subquery(noted_before(until).into_query()))
            .filter(has_nothing(keys::Entity::find()))
            .order_by_asc(users::Column::Id)
            .limit(USERS_MAX)
            .into_tuple()
            .all(&self.0.db)
            .await;
        let due: Vec<i64> = due.map_err(|error| self.0.error(&error))?;
        if due.is_empty() {
            return Ok(0);
        }
        let transaction = self.0.begin().await?;
        let deleted = delete(&transaction, due, until).await;
        self.0
            .finish(transaction, deleted.map_err(Abort::from))
            .await
    }
}

/// Forgets that a user had nothing, in the transaction that gives the user something: who loses it
/// before the next pass is kept from then on.
///
/// # Errors
///
/// Any database error.
pub async fn mark_used(within: &DatabaseTransaction, user_id: i64) -> Result<(), DbErr> {
    let noted = unused::Entity::delete_by_id(user_id);
    noted.exec(within).await.map(drop)
}

async fn note(within: &DatabaseTransaction, ids: BTreeSet<i64>, now: UtcTime) -> Result<(), DbErr> {
    let in_force = keys::Entity::find().filter(in_force(now));
    let idle = locked_idle(within, ids, in_force).await?;
    let rows = idle.into_iter().map(|user_id| unused::ActiveModel {
        user_id: ActiveValue::Set(user_id),
        since: ActiveValue::Set(now),
    });
    let mut once = OnConflict::column(unused::Column::UserId);
    once.do_nothing();
    // Nothing is sent if there are no rows.
    let noted = unused::Entity::insert_many(rows).on_conflict(once);
    noted.exec_without_returning(within).await.map(drop)
}

/// Deletes the notes on users who are not idle any more.
async fn delete_notes(db: &DatabaseConnection, ids: BTreeSet<i64>) -> Result<(), DbErr> {
    if ids.is_empty() {
        return Ok(());
    }
    let noted = unused::Entity::delete_many().filter(unused::Column::UserId.is_in(ids));
    noted.exec(db).await.map(drop)
}

/// Deletes those users who still have nothing, and had nothing since they were found.
async fn delete(within: &DatabaseTransaction, due: Vec<i64>, until: UtcTime) -> Result<u64, DbErr> {
    let idle = locked_idle(within, due, keys::Entity::find()).await?;
    let idle = noted_before(until).filter(unused::Column::UserId.is_in(idle));
    let idle: Vec<i64> = idle.into_tuple().all(within).await?;
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

/// Query for the numbers of users who were noted before a time.
fn noted_before(until: UtcTime) -> Select<unused::Entity> {
    unused::Entity::find()
        .select_only()
        .column(unused::Column::UserId)
        .filter(unused::Column::Since.lt(until))
}

/// Locks users, and returns those who have nothing, not even one of these keys.
///
/// Users are locked before they are looked at, by another statement, which sees what was committed
/// before: a membership or a key that somebody else inserts waits for the lock. Users whom others
/// hold are skipped.
async fn locked_idle(
    within: &DatabaseTransaction,
    ids: impl IntoIterator<Item = i64>,
    of_keys: Select<keys::Entity>,
) -> Result<Vec<i64>, DbErr> {
    let mut locked = users::Entity::find()
        .select_only()
        .column(users::Column::Id)
        .filter(users::Column::Id.is_in(ids))
        .order_by_asc(users::Column::Id);
    if within.get_database_backend() == DbBackend::Postgres {
        locked = locked.lock_with_behavior(LockType::Update, LockBehavior::SkipLocked);
    }
    let locked: Vec<i64> = locked.into_tuple().all(within).await?;
    users::Entity::find()
        .select_only()
        .column(users::Column::Id)
        .filter(users::Column::Id.is_in(locked))
        .filter(has_nothing(of_keys))
        .into_tuple()
        .all(within)
        .await
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
