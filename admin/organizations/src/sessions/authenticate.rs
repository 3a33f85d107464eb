//! Authentication of callers by the tokens of their sessions.

use super::Sessions;
use crate::caller::{Caller, Credential};
use crate::secret_token::SecretToken;
use millrace_catalog::cleanup::session_in_force;
use millrace_catalog::entities::{sessions, users};
use millrace_catalog::{CatalogError, Scopes, UtcTime};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, JoinType, QueryFilter, QuerySelect};

/// Age at which the time of last use is written again, in microseconds: five minutes.
const LAST_USED_STEP_MICROS: i64 = 5 * 60_000_000;

impl Sessions<'_> {
    /// Authenticates the caller of a presented token. `None` if it is malformed or unknown, the
    /// session has ended, or its user is inactive.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn authenticate(self, presented: &str) -> Result<Option<Caller>, CatalogError> {
        let Some(token) = SecretToken::parse(presented) else {
            return Ok(None);
        };
        let now = self.0.now();
        let owner = sessions::Entity::belongs_to(users::Entity)
            .from(sessions::Column::UserId)
            .to(users::Column::Id);
        let found = sessions::Entity::find()
            .join(JoinType::InnerJoin, owner.into())
            .select_also(users::Entity)
            .filter(session_in_force(now))
            .filter(sessions::Column::TokenHash.eq(token.hash()))
            .filter(users::Column::IsActive.eq(true))
            .one(self.0.reader())
            .await
            .map_err(|error| self.0.error(&error))?;
        let Some((record, Some(user))) = found else {
            return Ok(None);
        };
        if !token.has_hash(&record.token_hash) {
            return Ok(None);
        }
        if let Err(error) = self.touch(&record, now).await {
            // Reading may go on while writing cannot: a full disk, a standby.
            tracing::warn!(%error, session = %record.id, "time of last use not written");
        }
        Ok(Some(Caller {
            user,
            credential: Credential::Session(record.id),
            scopes: Scopes::all(),
            scoped_organizations: None,
        }))
    }

    /// Writes the time of last use, at most every five minutes. No user made that change, so it
    /// leaves no entry in the activity log.
    async fn touch(self, record: &sessions::Model, now: UtcTime) -> Result<(), CatalogError> {
        if record.last_used_at > now.plus_micros(-LAST_USED_STEP_MICROS) {
            return Ok(());
        }
        // No row is found if the session has ended meanwhile.
        let touched = sessions::Entity::update_many()
            .col_expr(sessions::Column::LastUsedAt, Expr::value(now))
            .filter(sessions::Column::Id.eq(record.id))
            .exec(self.0.writer())
            .await;
        touched.map(drop).map_err(|error| self.0.error(&error))
    }
}
