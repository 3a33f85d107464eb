//! Keys as another key of the same owner manages them.
//!
//! Any key may list its owner's keys. It makes and touches only keys that fit within itself: in
//! scopes, in organizations and in time; so no key can be turned into a stronger one. What it is
//! itself is read again in the transaction of the change.

use super::fit::{must_be_organizations_of, must_fit, must_not_operate, some_organizations};
use super::{CreatedPersonalKey, Terms, checked_label, in_force, key_deed, lock_user};
use crate::activity::Activity;
use crate::catalog::Catalog;
use crate::entities::personal_api_keys as keys;
use crate::error::{CatalogError, ChangeError};
use crate::key::PersonalKey;
use crate::page::{Page, PageRequest};
use crate::personal_keys::Caller;
use crate::scopes::Scopes;
use crate::time::UtcTime;
use crate::transaction::Abort;
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveValue, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, PaginatorTrait, QueryFilter,
    QueryOrder, QuerySelect, Select,
};

/// What a new key of one's own needs.
#[derive(Clone, Debug)]
pub struct NewOwnKey {
    /// What its owner calls it; 1 to 40 characters.
    pub label: String,
    /// What it may do.
    pub scopes: Scopes,
    /// When it stops working; `None`: never.
    pub expires_at: Option<UtcTime>,
    /// The only organizations it sees; `None` or empty: all of its owner's.
    pub scoped_organizations: Option<Vec<Uuid>>,
}

/// What is to be changed; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct OwnKeyChange {
    /// 1 to 40 characters.
    pub label: Option<String>,
    /// What it may do.
    pub scopes: Option<Scopes>,
    /// `Some(None)`: it works for ever.
    pub expires_at: Option<Option<UtcTime>>,
    /// `Some(None)` or empty: all of its owner's.
    pub scoped_organizations: Option<Option<Vec<Uuid>>>,
}

impl Catalog {
    /// The caller's keys that were not revoked, oldest first.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn own_keys(
        &self,
        caller: &Caller,
        page: PageRequest,
    ) -> Result<Page<keys::Model>, CatalogError> {
        let query = kept_by(caller)
            .order_by_asc(keys::Column::CreatedAt)
            .order_by_asc(keys::Column::Id);
        let read = async {
            let count = query.clone().count(&self.db).await?;
            let part = query.offset(page.offset).limit(page.limit);
            let rows = part.all(&self.db).await?;
            Ok(Page { count, rows })
        };
        read.await.map_err(|error: DbErr| self.error(&error))
    }

    /// One of the caller's keys; `None` if there is none, or it is another's.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn own_key(
        &self,
        caller: &Caller,
        id: Uuid,
    ) -> Result<Option<keys::Model>, CatalogError> {
        let query = kept_by(caller).filter(keys::Column::Id.eq(id));
        let found = query.one(&self.db).await;
        found.map_err(|error| self.error(&error))
    }

    /// Makes another key for the caller.
    ///
    /// # Errors
    ///
    /// It would not fit within the caller's key, a bad label, an expiry that has passed, an
    /// organization that is not the owner's, or too many keys.
    pub async fn create_own_key(
        &self,
        caller: &Caller,
        new: NewOwnKey,
    ) -> Result<CreatedPersonalKey, ChangeError> {
        let terms = Terms {
            label: checked_label(&new.label)?,
            scopes: new.scopes,
            expires_at: new.expires_at,
            scoped_organizations: some_organizations(new.scoped_organizations),
        };
        let transaction = self.begin().await?;
        let made = async {
            let own = self.own_terms(&transaction, caller).await?;
            must_be_organizations_of(&transaction, caller, &terms).await?;
            must_not_operate(&terms.scopes)?;
            must_fit(&own, &terms)?;
            self.add_key(&transaction, &caller.actor(), caller.user.id, terms)
                .await
        };
        let made = made.await;
        self.finish(transaction, made).await
    }

    /// Changes one of the caller's keys.
    ///
    /// # Errors
    ///
    /// No such key; before or after the change it does not fit within the caller's; a bad label,
    /// an expiry that has passed, or an organization that is not the owner's.
    pub async fn update_own_key(
        &self,
        caller: &Caller,
        id: Uuid,
        change: OwnKeyChange,
    ) -> Result<keys::Model, ChangeError> {
        let label = change.label.as_deref().map(checked_label).transpose()?;
        let change = OwnKeyChange { label, ..change };
        let transaction = self.begin().await?;
        let changed = self.apply_to_key(&transaction, caller, id, change).await;
        self.finish(transaction, changed).await
    }

    async fn apply_to_key(
        &self,
        within: &DatabaseTransaction,
        caller: &Caller,
        id: Uuid,
        change: OwnKeyChange,
    ) -> Result<keys::Model, Abort> {
        let own = self.own_terms(within, caller).await?;
        let before = fitting_key(within, caller, &own, id).await?;
        let mut terms = Terms::of(&before);
        if let Some(label) = change.label {
            terms.label = label;
        }
        if let Some(scopes) = change.scopes {
            if !before.scopes.operate() {
                must_not_operate(&scopes)?;
            }
            terms.scopes = scopes;
        }
        if let Some(expires_at) = change.expires_at {
            if expires_at.is_some_and(|at| at <= self.now()) {
                return Err(ChangeError::Expired.into());
            }
            if before.expires_at.is_some_and(|at| at <= self.now()) {
                // It comes back to those that count.
                self.must_have_room_for_a_key(within, caller.user.id)
                    .await?;
            }
            terms.expires_at = expires_at;
        }
        if let Some(only) = change.scoped_organizations {
            terms.scoped_organizations = some_organizations(only);
            must_be_organizations_of(within, caller, &terms).await?;
        }
        must_fit(&own, &terms)?;
        self.save_key(within, caller, &before, terms).await
    }

    /// Writes what differs, and the entry about it; nothing if nothing differs.
    async fn save_key(
        &self,
        within: &DatabaseTransaction,
        caller: &Caller,
        before: &keys::Model,
        terms: Terms,
    ) -> Result<keys::Model, Abort> {
        let mut after = before.clone();
        after.label = terms.label;
        after.scopes = terms.scopes;
        after.expires_at = terms.expires_at;
        after.scoped_organizations = terms.scoped_organizations;
        let deed = key_deed(Activity::Updated, &after)
            .field("label", &before.label, &after.label)
            .field("scopes", &before.scopes, &after.scopes)
            .field("expires_at", before.expires_at, after.expires_at)
            .field(
                "scoped_organizations",
                &before.scoped_organizations,
                &after.scoped_organizations,
            );
        if deed.changes_nothing() {
            return Ok(after);
        }
        let row = keys::ActiveModel {
            id: ActiveValue::Unchanged(after.id),
            label: ActiveValue::Set(after.label),
            scopes: ActiveValue::Set(after.scopes),
            expires_at: ActiveValue::Set(after.expires_at),
            scoped_organizations: ActiveValue::Set(after.scoped_organizations),
            ..Default::default()
        };
        let saved = keys::Entity::update(row).exec(within).await?;
        self.record_of_key(within, &caller.actor(), deed, &saved, Some(before))
            .await?;
        Ok(saved)
    }

    /// Replaces the value of one of the caller's keys; the old one is refused from the next
    /// request on.
    ///
    /// # Errors
    ///
    /// No such key, or it does not fit within the caller's.
    pub async fn roll_own_key(
        &self,
        caller: &Caller,
        id: Uuid,
    ) -> Result<CreatedPersonalKey, ChangeError> {
        let value = PersonalKey::generate()?;
        let transaction = self.begin().await?;
        let rolled = async {
            let own = self.own_terms(&transaction, caller).await?;
            let before = fitting_key(&transaction, caller, &own, id).await?;
            let row = keys::ActiveModel {
                id: ActiveValue::Unchanged(before.id),
                key_hash: ActiveValue::Set(value.hash()),
                mask_value: ActiveValue::Set(value.mask()),
                last_rolled_at: ActiveValue::Set(Some(self.now())),
                ..Default::default()
            };
            let record = keys::Entity::update(row).exec(&transaction).await?;
            let deed = key_deed(Activity::Updated, &record)
                .field("mask_value", before.mask_value, &record.mask_value)
                .field(
                    "last_rolled_at",
                    before.last_rolled_at,
                    record.last_rolled_at,
                );
            self.record_of_key(&transaction, &caller.actor(), deed, &record, None)
                .await?;
            Ok(CreatedPersonalKey { value, record })
        };
        let rolled = rolled.await;
        self.finish(transaction, rolled).await
    }

    /// Deletes one of the caller's keys. It is refused from the next request on.
    ///
    /// # Errors
    ///
    /// No such key, or it does not fit within the caller's.
    pub async fn delete_own_key(&self, caller: &Caller, id: Uuid) -> Result<(), ChangeError> {
        let transaction = self.begin().await?;
        let deleted = async {
            let own = self.own_terms(&transaction, caller).await?;
            let key = fitting_key(&transaction, caller, &own, id).await?;
            self.end_key(&transaction, &caller.actor(), &key).await?;
            Ok(())
        };
        let deleted = deleted.await;
        self.finish(transaction, deleted).await
    }

    /// What the caller's key is at this moment. Locks its owner.
    async fn own_terms(
        &self,
        within: &DatabaseTransaction,
        caller: &Caller,
    ) -> Result<Terms, Abort> {
        lock_user(within, caller.user.id).await?;
        let own = keys::Entity::find_by_id(caller.key_id)
            .filter(in_force(self.now()))
            .one(within)
            .await?;
        let own = own.ok_or_else(|| ChangeError::forbidden("This key was revoked just now."))?;
        Ok(Terms::of(&own))
    }
}

/// The caller's keys that were not revoked.
fn kept_by(caller: &Caller) -> Select<keys::Entity> {
    keys::Entity::find()
        .filter(keys::Column::UserId.eq(caller.user.id))
        .filter(keys::Column::RevokedAt.is_null())
}

/// One of the caller's keys, if it fits within the caller's own.
async fn fitting_key(
    within: &DatabaseTransaction,
    caller: &Caller,
    own: &Terms,
    id: Uuid,
) -> Result<keys::Model, Abort> {
    let query = kept_by(caller).filter(keys::Column::Id.eq(id));
    let found = query.one(within).await?;
    let key = found.ok_or_else(|| ChangeError::not_found("personal key", &id))?;
    must_fit(own, &Terms::of(&key))?;
    Ok(key)
}
