//! Keys that the operator creates, lists and revokes: for any user, with any scope.

use super::{CreatedPersonalKey, KeyConstraints, PersonalKeys, checked_label};
use crate::user_changes::lock_user;
use crate::users::Users;
use millrace_catalog::entities::personal_api_keys::{self as keys, OrganizationIds};
use millrace_catalog::key::{PersonalKey, mask};
use millrace_catalog::{Actor, CatalogError, ChangeError, Scopes, UtcTime};
use sea_orm::prelude::Uuid;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder};

/// Input for a new personal key.
#[derive(Clone, Debug)]
pub struct NewPersonalKey {
    /// Address of the owner.
    pub email: String,
    /// Label; 1 to 40 characters.
    pub label: String,
    /// Scopes of the key.
    pub scopes: Scopes,
    /// Time of expiry; `None`: never.
    pub expires_at: Option<UtcTime>,
    /// Only organizations that the key can access; `None`: all of its owner's.
    pub scoped_organizations: Option<Vec<Uuid>>,
}

impl PersonalKeys<'_> {
    /// Creates a personal key for any user.
    ///
    /// # Errors
    ///
    /// No such user, a bad label, an expiry that has passed, or too many keys.
    pub async fn create(
        self,
        actor: &Actor,
        new: NewPersonalKey,
    ) -> Result<CreatedPersonalKey, ChangeError> {
        let constraints = KeyConstraints {
            label: checked_label(&new.label)?,
            scopes: new.scopes,
            expires_at: new.expires_at,
            scoped_organizations: new.scoped_organizations.map(OrganizationIds),
        };
        let user = Users::new(self.0).by_email(&new.email).await?;
        let user = user.ok_or_else(|| ChangeError::not_found("user", &new.email))?;
        let transaction = self.0.begin().await?;
        let made = async {
            lock_user(&transaction, user.id).await?;
            self.add(&transaction, actor, user.id, constraints).await
        };
        let made = made.await;
        self.0.finish(transaction, made).await
    }

    /// Lists the keys of one user or all that are not revoked, oldest first.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list(self, user_id: Option<i64>) -> Result<Vec<keys::Model>, CatalogError> {
        let mut query = keys::Entity::find().filter(keys::Column::RevokedAt.is_null());
        if let Some(user_id) = user_id {
            query = query.filter(keys::Column::UserId.eq(user_id));
        }
        query
            .order_by_asc(keys::Column::CreatedAt)
            .order_by_asc(keys::Column::Id)
            .all(self.0.reader())
            .await
            .map_err(|error| self.0.error(&error))
    }

    /// Revokes a personal key, by its id or value. It is refused from the next request on.
    ///
    /// # Errors
    ///
    /// No such key, or it was revoked before.
    pub async fn revoke(self, actor: &Actor, id_or_key: &str) -> Result<keys::Model, ChangeError> {
        let which = match (Uuid::parse_str(id_or_key), PersonalKey::parse(id_or_key)) {
            (Ok(id), _) => keys::Column::Id.eq(id),
            (_, Ok(key)) => keys::Column::KeyHash.eq(key.hash()),
            (Err(_), Err(error)) => return Err(error.into()),
        };
        let query = keys::Entity::find()
            .filter(which)
            .filter(keys::Column::RevokedAt.is_null());
        let transaction = self.0.begin().await?;
        let missing = || ChangeError::not_found("personal key", &mask(id_or_key));
        let revoked = async {
            let seen = query.clone().one(&transaction).await?.ok_or_else(missing)?;
            lock_user(&transaction, seen.user_id).await?;
            // Read again, as the previous holder of the lock may have revoked or rolled it.
            let found = query.one(&transaction).await?.ok_or_else(missing)?;
            self.end(&transaction, actor, &found).await
        };
        let revoked = revoked.await;
        self.0.finish(transaction, revoked).await
    }
}
