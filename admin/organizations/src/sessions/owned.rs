//! Sessions that their user lists and ends: by another session, or by a key that allows as much.

use super::{Sessions, session_audit};
use crate::caller::{Caller, Credential};
use crate::user_changes::{joined_by, lock_user, record_in};
use millrace_catalog::cleanup::{in_force, session_in_force};
use millrace_catalog::entities::{personal_api_keys as keys, sessions, sign_in_links as links};
use millrace_catalog::transaction::Abort;
use millrace_catalog::{
    Activity, ChangeError, OrganizationIds, Page, PageRequest, Scopes, UtcTime,
};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect, Select,
};

impl Sessions<'_> {
    /// Page of the caller's sessions that are in force, oldest first.
    ///
    /// # Errors
    ///
    /// The caller's key allows less than a session, or any database error.
    pub async fn list_own(
        self,
        caller: &Caller,
        page: PageRequest,
    ) -> Result<Page<sessions::Model>, ChangeError> {
        must_allow_all(&caller.scopes, caller.scoped_organizations.as_ref())?;
        let query = own(caller.user.id, self.0.now())
            .order_by_asc(sessions::Column::CreatedAt)
            .order_by_asc(sessions::Column::Id);
        let read = async {
            let count = query.clone().count(self.0.reader()).await?;
            let part = query.offset(page.offset).limit(page.limit);
            let rows = part.all(self.0.reader()).await?;
            Ok(Page { count, rows })
        };
        let read = read.await;
        read.map_err(|error: DbErr| self.0.error(&error).into())
    }

    /// Reads one of the caller's sessions; `None` if there is none, or it is another's.
    ///
    /// # Errors
    ///
    /// The caller's key allows less than a session, or any database error.
    pub async fn get_own(
        self,
        caller: &Caller,
        id: Uuid,
    ) -> Result<Option<sessions::Model>, ChangeError> {
        must_allow_all(&caller.scopes, caller.scoped_organizations.as_ref())?;
        let query = own(caller.user.id, self.0.now()).filter(sessions::Column::Id.eq(id));
        let found = query.one(self.0.reader()).await;
        found.map_err(|error| self.0.error(&error).into())
    }

    /// Ends one of the caller's sessions, also the one of the request. It is refused from the next
    /// request on.
    ///
    /// # Errors
    ///
    /// No such session, or the caller's key allows less than a session.
    pub async fn end_own(self, caller: &Caller, id: Uuid) -> Result<(), ChangeError> {
        let transaction = self.0.begin().await?;
        let ended = self.end(&transaction, caller, id).await;
        self.0.finish(transaction, ended).await
    }

    async fn end(
        self,
        within: &DatabaseTransaction,
        caller: &Caller,
        id: Uuid,
    ) -> Result<(), Abort> {
        lock_user(within, caller.user.id).await?;
        must_still_allow_all(within, caller, self.0.now()).await?;
        let query = own(caller.user.id, self.0.now()).filter(sessions::Column::Id.eq(id));
        let found = query.one(within).await?;
        let session = found.ok_or_else(|| ChangeError::not_found("session", &id))?;
        sessions::Entity::delete_by_id(id).exec(within).await?;
        let audit = session_audit(Activity::Deleted, &session, &caller.user);
        let reached = joined_by(caller.user.id);
        record_in(self.0, within, &caller.actor(), audit, reached).await?;
        Ok(())
    }
}

/// Ends all sessions and links of a user, who is locked. Only those that are in force: `cleanup`
/// deletes the others, and so never waits for a row that this holds while this waits for one of
/// its rows.
pub(crate) async fn end_all_of(
    within: &DatabaseTransaction,
    user_id: i64,
    now: UtcTime,
) -> Result<(), DbErr> {
    sessions::Entity::delete_many()
        .filter(sessions::Column::UserId.eq(user_id))
        .filter(session_in_force(now))
        .exec(within)
        .await?;
    links::Entity::delete_many()
        .filter(links::Column::UserId.eq(user_id))
        .filter(links::Column::ExpiresAt.gt(now))
        .exec(within)
        .await?;
    Ok(())
}

/// Refuses a session that ended since its request began.
pub(crate) async fn must_be_in_force(
    within: &DatabaseTransaction,
    id: Uuid,
    now: UtcTime,
) -> Result<(), Abort> {
    let found = sessions::Entity::find_by_id(id)
        .filter(session_in_force(now))
        .one(within)
        .await?;
    match found {
        Some(_) => Ok(()),
        None => Err(ChangeError::forbidden("This session was ended just now.").into()),
    }
}

/// Refuses a credential that ended since the request began, or allows less than a session now.
async fn must_still_allow_all(
    within: &DatabaseTransaction,
    caller: &Caller,
    now: UtcTime,
) -> Result<(), Abort> {
    let key_id = match caller.credential {
        Credential::Key(id) => id,
        Credential::Session(id) => return must_be_in_force(within, id, now).await,
    };
    let key = keys::Entity::find_by_id(key_id)
        .filter(in_force(now))
        .one(within)
        .await?;
    let key = key.ok_or_else(|| ChangeError::forbidden("This key was revoked just now."))?;
    let allowed = must_allow_all(&key.scopes, key.scoped_organizations.as_ref());
    allowed.map_err(Abort::from)
}

/// Refuses a key that allows less than the session that it would see or end.
fn must_allow_all(
    scopes: &Scopes,
    scoped_organizations: Option<&OrganizationIds>,
) -> Result<(), ChangeError> {
    if scopes.cover(&Scopes::all()) && scoped_organizations.is_none() {
        return Ok(());
    }
    let detail = "Sessions allow everything; use one, or a key with the scope * for all of your \
                  organizations.";
    Err(ChangeError::forbidden(detail))
}

/// Query for the sessions of a user that are in force.
fn own(user_id: i64, now: UtcTime) -> Select<sessions::Entity> {
    sessions::Entity::find()
        .filter(sessions::Column::UserId.eq(user_id))
        .filter(session_in_force(now))
}
