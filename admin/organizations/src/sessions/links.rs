//! Links by which people sign in, once.

use super::Sessions;
use crate::secret_token::SecretToken;
use crate::user_changes::{joined_by, lock_user, record_in};
use crate::users::Users;
use millrace_catalog::database_clock::micros;
use millrace_catalog::entities::sessions::SignInMethod;
use millrace_catalog::entities::{sign_in_links as links, users};
use millrace_catalog::limits::SIGN_IN_LINKS_PER_USER_MAX;
use millrace_catalog::transaction::Abort;
use millrace_catalog::{Activity, ActivityScope, Actor, AuditChange, ChangeError, UtcTime};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveValue, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, QueryFilter, QueryOrder,
    QuerySelect,
};
use std::time::Duration;

/// Time for which a link works.
pub const SIGN_IN_LINK_LIFETIME: Duration = Duration::from_secs(15 * 60);

/// Link with its token, which is known only now.
#[derive(Clone, Debug)]
pub struct CreatedLink {
    /// Secret of the link.
    pub token: SecretToken,
    /// User whom the link signs in.
    pub user: users::Model,
    /// Time at which the link stops working.
    pub expires_at: UtcTime,
}

impl Sessions<'_> {
    /// Creates a link for the operator to hand over.
    ///
    /// # Errors
    ///
    /// No such user, or the user is inactive.
    pub async fn create_link(self, actor: &Actor, email: &str) -> Result<CreatedLink, ChangeError> {
        let user = Users::new(self.0).by_email(email).await?;
        let user = user.ok_or_else(|| ChangeError::not_found("user", &email))?;
        if !user.is_active {
            return Err(ChangeError::forbidden("This user is not active."));
        }
        let transaction = self.0.begin().await?;
        let made = async {
            let user_id = user.id;
            let (link, row) = self
                .insert_link(&transaction, user, SignInMethod::Link)
                .await?;
            let (scope, email) = (ActivityScope::Session, &link.user.email);
            let audit = AuditChange::new(Activity::Created, scope, None, &row.id, email).field(
                "sign_in_link",
                (),
                row.expires_at,
            );
            record_in(self.0, &transaction, actor, audit, joined_by(user_id)).await?;
            Ok(link)
        };
        let made = made.await;
        self.0.finish(transaction, made).await
    }

    /// Creates a link to be mailed to the address of an account, if there is one. Anybody may ask
    /// for such a link, so it leaves no entry in the activity log; signing in with it does.
    ///
    /// Accounts are told apart by addresses in lower case. A server may take letters outside ASCII
    /// in another case for another mailbox, so such addresses get no link.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn create_link_to_mail(
        self,
        email: &str,
    ) -> Result<Option<CreatedLink>, ChangeError> {
        let user = Users::new(self.0).by_email(email).await?;
        let Some(user) = user.filter(|user| user.is_active && user.email.is_ascii()) else {
            return Ok(None);
        };
        let transaction = self.0.begin().await?;
        let made = self.insert_link(&transaction, user, SignInMethod::Mail);
        let made = made.await;
        let (link, _) = self.0.finish(transaction, made).await?;
        Ok(Some(link))
    }

    /// Locks the user and creates a link. The oldest links stop working if there are too many.
    async fn insert_link(
        self,
        within: &DatabaseTransaction,
        user: users::Model,
        method: SignInMethod,
    ) -> Result<(CreatedLink, links::Model), Abort> {
        lock_user(within, user.id).await?;
        delete_surplus(within, user.id).await?;
        let (token, now) = (SecretToken::generate()?, self.0.now());
        let expires_at = now.plus_micros(micros(SIGN_IN_LINK_LIFETIME));
        let row = links::ActiveModel {
            id: ActiveValue::Set(Uuid::now_v7()),
            user_id: ActiveValue::Set(user.id),
            token_hash: ActiveValue::Set(token.hash()),
            method: ActiveValue::Set(method),
            created_at: ActiveValue::Set(now),
            expires_at: ActiveValue::Set(expires_at),
        };
        let row = links::Entity::insert(row)
            .exec_with_returning(within)
            .await?;
        let link = CreatedLink {
            token,
            user,
            expires_at,
        };
        Ok((link, row))
    }
}

/// Deletes the oldest links of a user, who is locked, so that there is room for one more.
async fn delete_surplus(within: &DatabaseTransaction, user_id: i64) -> Result<(), DbErr> {
    let had: Vec<Uuid> = links::Entity::find()
        .select_only()
        .column(links::Column::Id)
        .filter(links::Column::UserId.eq(user_id))
        .order_by_desc(links::Column::CreatedAt)
        .order_by_desc(links::Column::Id)
        .into_tuple()
        .all(within)
        .await?;
    let kept = usize::try_from(SIGN_IN_LINKS_PER_USER_MAX - 1).unwrap_or(usize::MAX);
    // One at most, as each was created alone: a single row cannot deadlock with `cleanup`.
    for id in had.into_iter().skip(kept) {
        links::Entity::delete_by_id(id).exec(within).await?;
    }
    Ok(())
}
