//! Keys as the operator makes, lists and revokes them: for anybody, with any scope.

use super::{CreatedPersonalKey, Terms, checked_label, lock_user};
use crate::actor::Actor;
use crate::catalog::Catalog;
use crate::entities::personal_api_keys::{self as keys, OrganizationIds};
use crate::error::{CatalogError, ChangeError};
use crate::key::{PersonalKey, mask};
use crate::scopes::Scopes;
use crate::time::UtcTime;
use sea_orm::prelude::Uuid;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder};

/// What a new personal key needs.
#[derive(Clone, Debug)]
pub struct NewPersonalKey {
    /// The address of whose key it will be.
    pub email: String,
    /// What its owner calls it; 1 to 40 characters.
    pub label: String,
    /// What it may do.
    pub scopes: Scopes,
    /// When it stops working; `None`: never.
    pub expires_at: Option<UtcTime>,
    /// The only organizations it sees; `None`: all of its owner's.
    pub scoped_organizations: Option<Vec<Uuid>>,
}

impl Catalog {
    /// Makes a personal key for anybody.
    ///
    /// # Errors
    ///
    /// No such user, a bad label, an expiry that has passed, or too many keys.
    pub async fn create_personal_key(
        &self,
        actor: &Actor,
        new: NewPersonalKey,
    ) -> Result<CreatedPersonalKey, ChangeError> {
        let terms = Terms {
            label: checked_label(&new.label)?,
            scopes: new.scopes,
            expires_at: new.expires_at,
            scoped_organizations: new.scoped_organizations.map(OrganizationIds),
        };
        let user = self.user_by_email(&new.email).await?;
        let user = user.ok_or_else(|| ChangeError::not_found("user", &new.email))?;
        let transaction = self.begin().await?;
        let made = async {
            lock_user(&transaction, user.id).await?;
            self.add_key(&transaction, actor, user.id, terms).await
        };
        let made = made.await;
        self.finish(transaction, made).await
    }

    /// The keys that were not revoked, of one user or all; oldest first.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn list_personal_keys(
        &self,
        user_id: Option<i64>,
    ) -> Result<Vec<keys::Model>, CatalogError> {
        let mut query = keys::Entity::find().filter(keys::Column::RevokedAt.is_null());
        if let Some(user_id) = user_id {
            query = query.filter(keys::Column::UserId.eq(user_id));
        }
        query
            .order_by_asc(keys::Column::CreatedAt)
            .order_by_asc(keys::Column::Id)
            .all(&self.db)
            .await
            .map_err(|error| self.error(&error))
    }

    /// Revokes a personal key, by its id or by itself. It is refused from the next request on.
    ///
    /// # Errors
    ///
    /// No such key, or it was revoked before.
    pub async fn revoke_personal_key(
        &self,
        actor: &Actor,
        id_or_key: &str,
    ) -> Result<keys::Model, ChangeError> {
        let which = match (Uuid::parse_str(id_or_key), PersonalKey::parse(id_or_key)) {
            (Ok(id), _) => keys::Column::Id.eq(id),
            (_, Ok(key)) => keys::Column::KeyHash.eq(key.hash()),
            (Err(_), Err(error)) => return Err(error.into()),
        };
        let query = keys::Entity::find()
            .filter(which)
            .filter(keys::Column::RevokedAt.is_null());
        let transaction = self.begin().await?;
        let missing = || ChangeError::not_found("personal key", &mask(id_or_key));
        let revoked = async {
            let seen = query.clone().one(&transaction).await?.ok_or_else(missing)?;
            lock_user(&transaction, seen.user_id).await?;
            // Again, as whoever held the lock may have revoked or rolled it.
            let found = query.one(&transaction).await?.ok_or_else(missing)?;
            self.end_key(&transaction, actor, &found).await
        };
        let revoked = revoked.await;
        self.finish(transaction, revoked).await
    }
}
