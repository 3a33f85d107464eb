//! Authentication of callers by personal keys.

use super::PersonalKeys;
use crate::caller::{Caller, Credential};
use millrace_catalog::cleanup::in_force;
use millrace_catalog::entities::{personal_api_keys as keys, users};
use millrace_catalog::key::PersonalKey;
use millrace_catalog::{CatalogError, UtcTime};
use sea_orm::{ActiveValue, ColumnTrait, EntityTrait, JoinType, QueryFilter, QuerySelect};

/// Age at which the time of last use is written again, in microseconds.
const LAST_USED_STEP_MICROS: i64 = 3_600_000_000;

impl PersonalKeys<'_> {
    /// Authenticates the caller of a presented key. `None` if the key is malformed, unknown,
    /// revoked or expired, or its owner inactive.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn authenticate(self, presented: &str) -> Result<Option<Caller>, CatalogError> {
        let Ok(key) = PersonalKey::parse(presented) else {
            return Ok(None);
        };
        let now = self.0.now();
        let owner = keys::Entity::belongs_to(users::Entity)
            .from(keys::Column::UserId)
            .to(users::Column::Id);
        let found = keys::Entity::find()
            .join(JoinType::InnerJoin, owner.into())
            .select_also(users::Entity)
            .filter(in_force(now))
            .filter(keys::Column::KeyHash.eq(key.hash()))
            .filter(users::Column::IsActive.eq(true))
            .one(self.0.reader())
            .await
            .map_err(|error| self.0.error(&error))?;
        let Some((record, Some(user))) = found else {
            return Ok(None);
        };
        if !key.has_hash(&record.key_hash) {
            return Ok(None);
        }
        if let Err(error) = self.touch(&record, now).await {
            // Reading may go on while writing cannot: a full disk, a standby.
            tracing::warn!(%error, key = record.mask_value, "time of last use not written");
        }
        Ok(Some(Caller {
            user,
            credential: Credential::Key(record.id),
            scopes: record.scopes,
            scoped_organizations: record.scoped_organizations,
        }))
    }

    /// Writes the time of last use, at most hourly. No user made that change, so it leaves no entry
    /// in the activity log.
    async fn touch(self, record: &keys::Model, now: UtcTime) -> Result<(), CatalogError> {
        let due = UtcTime(now.0.saturating_sub(LAST_USED_STEP_MICROS));
        if record.last_used_at.is_some_and(|at| at > due) {
            return Ok(());
        }
        let change = keys::ActiveModel {
            id: ActiveValue::Unchanged(record.id),
            last_used_at: ActiveValue::Set(Some(now)),
            ..Default::default()
        };
        let touched = keys::Entity::update(change).exec(self.0.writer()).await;
        touched.map(drop).map_err(|error| self.0.error(&error))
    }
}
