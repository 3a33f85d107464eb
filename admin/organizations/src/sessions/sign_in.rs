//! Signing in: a link becomes a session.

use super::{SESSION_LIFETIME, Sessions, USER_AGENT_CHARS_MAX, session_audit};
use crate::secret_token::SecretToken;
use crate::user_changes::{joined_by, lock_user, record_in};
use crate::users::prove_address;
use millrace_catalog::database_clock::micros;
use millrace_catalog::entities::sessions::{self, SignInMethod};
use millrace_catalog::entities::{sign_in_links as links, users};
use millrace_catalog::limits::SESSIONS_PER_USER_MAX;
use millrace_catalog::text::is_control;
use millrace_catalog::transaction::Abort;
use millrace_catalog::{Activity, Actor, ChangeError};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    QueryFilter, QueryOrder, QuerySelect,
};

/// Session with its token, which is known only now.
#[derive(Clone, Debug)]
pub struct OpenedSession {
    /// Secret of the session.
    pub token: SecretToken,
    /// Row of the session.
    pub record: sessions::Model,
    /// User who signed in.
    pub user: users::Model,
}

impl Sessions<'_> {
    /// Signs a user in by the token of a link, which is used up. `user_agent` is how the browser
    /// names itself.
    ///
    /// # Errors
    ///
    /// No such link: it is unknown, was used or has expired, or its user is inactive.
    pub async fn sign_in(
        self,
        token: &str,
        user_agent: &str,
    ) -> Result<OpenedSession, ChangeError> {
        let token = SecretToken::parse(token).ok_or_else(no_link)?;
        // Nothing is locked for a guess.
        let seen = find_link(self.0.reader(), &token).await;
        let seen = seen.map_err(|error| self.0.error(&error))?;
        let user_id = seen.ok_or_else(no_link)?.user_id;
        let transaction = self.0.begin().await?;
        let opened = self.use_link(&transaction, &token, user_id, user_agent);
        let opened = opened.await;
        self.0.finish(transaction, opened).await
    }

    async fn use_link(
        self,
        within: &DatabaseTransaction,
        token: &SecretToken,
        user_id: i64,
        user_agent: &str,
    ) -> Result<OpenedSession, Abort> {
        lock_user(within, user_id).await?;
        // Read again, as the previous holder of the lock may have used it.
        let link = find_link(within, token).await?;
        let in_time = link.filter(|link| link.expires_at > self.0.now());
        let link = in_time.ok_or_else(no_link)?;
        links::Entity::delete_by_id(link.id).exec(within).await?;
        let user = users::Entity::find_by_id(link.user_id)
            .filter(users::Column::IsActive.eq(true))
            .one(within)
            .await?;
        let user = user.ok_or_else(no_link)?;
        let user = match link.method {
            SignInMethod::Mail => prove_address(within, user, self.0.now()).await?,
            SignInMethod::Link | SignInMethod::Invite => user,
        };
        self.open(within, user, link.method, user_agent).await
    }

    /// Opens a session for a user, who is locked or new. Of too many sessions, the one that was
    /// used least recently ends.
    pub(crate) async fn open(
        self,
        within: &DatabaseTransaction,
        user: users::Model,
        method: SignInMethod,
        user_agent: &str,
    ) -> Result<OpenedSession, Abort> {
        delete_surplus(within, user.id).await?;
        let (token, now) = (SecretToken::generate()?, self.0.now());
        let row = sessions::ActiveModel {
            id: ActiveValue::Set(Uuid::now_v7()),
            user_id: ActiveValue::Set(user.id),
            token_hash: ActiveValue::Set(token.hash()),
            method: ActiveValue::Set(method),
            user_agent: ActiveValue::Set(shortened(user_agent)),
            created_at: ActiveValue::Set(now),
            last_used_at: ActiveValue::Set(now),
            expires_at: ActiveValue::Set(now.plus_micros(micros(SESSION_LIFETIME))),
        };
        let record = sessions::Entity::insert(row)
            .exec_with_returning(within)
            .await?;
        let audit = session_audit(Activity::Created, &record, &user)
            .field("method", (), method.name())
            .field("user_agent", (), &record.user_agent);
        let actor = Actor::user(&user, None);
        record_in(self.0, within, &actor, audit, joined_by(user.id)).await?;
        Ok(OpenedSession {
            token,
            record,
            user,
        })
    }
}

fn no_link() -> ChangeError {
    ChangeError::not_found("sign-in link", &"...")
}

async fn find_link<C: ConnectionTrait>(
    db: &C,
    token: &SecretToken,
) -> Result<Option<links::Model>, DbErr> {
    let found = links::Entity::find()
        .filter(links::Column::TokenHash.eq(token.hash()))
        .one(db)
        .await?;
    Ok(found.filter(|link| token.has_hash(&link.token_hash)))
}

/// Ends the sessions of a user that were used least recently, so that there is room for one more.
async fn delete_surplus(within: &DatabaseTransaction, user_id: i64) -> Result<(), DbErr> {
    let had: Vec<Uuid> = sessions::Entity::find()
        .select_only()
        .column(sessions::Column::Id)
        .filter(sessions::Column::UserId.eq(user_id))
        .order_by_desc(sessions::Column::LastUsedAt)
        .order_by_desc(sessions::Column::Id)
        .into_tuple()
        .all(within)
        .await?;
    let kept = usize::try_from(SESSIONS_PER_USER_MAX - 1).unwrap_or(usize::MAX);
    // One at most, as each was opened alone: a single row cannot deadlock with `cleanup`.
    for id in had.into_iter().skip(kept) {
        sessions::Entity::delete_by_id(id).exec(within).await?;
    }
    Ok(())
}

/// Name of a browser without control characters, cut off where it is too long.
fn shortened(user_agent: &str) -> String {
    let plain = user_agent.chars().filter(|c| !is_control(*c));
    plain.take(USER_AGENT_CHARS_MAX).collect()
}
