//! Keys that another key of the same owner manages.
//!
//! Any key may list its owner's keys. It creates and changes only keys that fit within its own
//! scopes, organizations and expiry, so no key can be turned into a stronger one. The caller's key
//! is read again in the transaction of the change.

use super::input::CheckedKeyChange;
use super::key_policy::{must_be_organizations_of, must_fit, must_not_operate, some_organizations};
use super::{CreatedPersonalKey, KeyConstraints, NewOwnKey, OwnKeyChange, PersonalKeys, key_audit};
use crate::caller::{Caller, Credential};
use crate::sessions;
use crate::user_changes::lock_user;
use millrace_catalog::cleanup::in_force;
use millrace_catalog::entities::personal_api_keys as keys;
use millrace_catalog::key::PersonalKey;
use millrace_catalog::transaction::Abort;
use millrace_catalog::{Activity, CatalogError, ChangeError, Page, PageRequest, Patch};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveValue, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, PaginatorTrait, QueryFilter,
    QueryOrder, QuerySelect, Select,
};

impl PersonalKeys<'_> {
    /// Page of the caller's keys that are not revoked, oldest first.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list_own(
        self,
        caller: &Caller,
        page: PageRequest,
    ) -> Result<Page<keys::Model>, CatalogError> {
        let query = kept_by(caller)
            .order_by_asc(keys::Column::CreatedAt)
            .order_by_asc(keys::Column::Id);
        let read = async {
            let count = query.clone().count(self.0.reader()).await?;
            let part = query.offset(page.offset).limit(page.limit);
            let rows = part.all(self.0.reader()).await?;
            Ok(Page { count, rows })
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Reads one of the caller's keys; `None` if there is none, or it is another's.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn get_own(
        self,
        caller: &Caller,
        id: Uuid,
    ) -> Result<Option<keys::Model>, CatalogError> {
        let query = kept_by(caller).filter(keys::Column::Id.eq(id));
        let found = query.one(self.0.reader()).await;
        found.map_err(|error| self.0.error(&error))
    }

    /// Creates another key for the caller.
    ///
    /// # Errors
    ///
    /// It would not fit within the caller's key, bad scopes or a bad label, an expiry that has
    /// passed, an organization that is not the owner's, or too many keys.
    pub async fn create_own(
        self,
        caller: &Caller,
        new: NewOwnKey,
    ) -> Result<CreatedPersonalKey, ChangeError> {
        let constraints = new.checked()?;
        let transaction = self.0.begin().await?;
        let made = async {
            let own = self.own_constraints(&transaction, caller).await?;
            must_be_organizations_of(&transaction, caller, &constraints).await?;
            must_not_operate(&constraints.scopes)?;
            must_fit(&own, &constraints)?;
            self.add(&transaction, &caller.actor(), caller.user.id, constraints)
                .await
        };
        let made = made.await;
        self.0.finish(transaction, made).await
    }

    /// Changes one of the caller's keys.
    ///
    /// # Errors
    ///
    /// No such key; before or after the change it does not fit within the caller's; bad scopes or a
    /// bad label, an expiry that has passed, or an organization that is not the owner's.
    pub async fn update_own(
        self,
        caller: &Caller,
        id: Uuid,
        change: OwnKeyChange,
    ) -> Result<keys::Model, ChangeError> {
        let change = change.checked()?;
        let transaction = self.0.begin().await?;
        let changed = self.apply(&transaction, caller, id, change).await;
        self.0.finish(transaction, changed).await
    }

    async fn apply(
        self,
        within: &DatabaseTransaction,
        caller: &Caller,
        id: Uuid,
        change: CheckedKeyChange,
    ) -> Result<keys::Model, Abort> {
        let own = self.own_constraints(within, caller).await?;
        let before = fitting_key(within, caller, &own, id).await?;
        let mut constraints = KeyConstraints::of(&before);
        change.label.apply_to(&mut constraints.label);
        if let Patch::Value(scopes) = change.scopes {
            if !before.scopes.operate() {
                must_not_operate(&scopes)?;
            }
            constraints.scopes = scopes;
        }
        if let Patch::Value(expires_at) = change.expires_at {
            if expires_at.is_some_and(|at| at <= self.0.now()) {
                return Err(ChangeError::Expired.into());
            }
            if before.expires_at.is_some_and(|at| at <= self.0.now()) {
                // An expired key with a new expiry counts as a key in force again.
                self.must_have_fewer(within, caller.user.id).await?;
            }
            constraints.expires_at = expires_at;
        }
        if let Patch::Value(only) = change.scoped_organizations {
            constraints.scoped_organizations = some_organizations(only);
            must_be_organizations_of(within, caller, &constraints).await?;
        }
        must_fit(&own, &constraints)?;
        self.save(within, caller, &before, constraints).await
    }

    /// Writes a changed key and its audit entries; nothing if no field differs.
    async fn save(
        self,
        within: &DatabaseTransaction,
        caller: &Caller,
        before: &keys::Model,
        constraints: KeyConstraints,
    ) -> Result<keys::Model, Abort> {
        let mut after = before.clone();
        after.label = constraints.label;
        after.scopes = constraints.scopes;
        after.expires_at = constraints.expires_at;
        after.scoped_organizations = constraints.scoped_organizations;
        let audit = key_audit(Activity::Updated, &after)
            .field("label", &before.label, &after.label)
            .field("scopes", &before.scopes, &after.scopes)
            .field("expires_at", before.expires_at, after.expires_at)
            .field(
                "scoped_organizations",
                &before.scoped_organizations,
                &after.scoped_organizations,
            );
        if audit.changes_nothing() {
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
        self.record_change(within, &caller.actor(), audit, &saved, Some(before))
            .await?;
        Ok(saved)
    }

    /// Replaces the value of one of the caller's keys; the old one is refused from the next
    /// request on.
    ///
    /// # Errors
    ///
    /// No such key, or it does not fit within the caller's.
    pub async fn roll_own(
        self,
        caller: &Caller,
        id: Uuid,
    ) -> Result<CreatedPersonalKey, ChangeError> {
        let value = PersonalKey::generate()?;
        let transaction = self.0.begin().await?;
        let rolled = async {
            let own = self.own_constraints(&transaction, caller).await?;
            let before = fitting_key(&transaction, caller, &own, id).await?;
            let row = keys::ActiveModel {
                id: ActiveValue::Unchanged(before.id),
                key_hash: ActiveValue::Set(value.hash()),
                mask_value: ActiveValue::Set(value.mask()),
                last_rolled_at: ActiveValue::Set(Some(self.0.now())),
                ..Default::default()
            };
            let record = keys::Entity::update(row).exec(&transaction).await?;
            let audit = key_audit(Activity::Updated, &record)
                .field("mask_value", before.mask_value, &record.mask_value)
                .field(
                    "last_rolled_at",
                    before.last_rolled_at,
                    record.last_rolled_at,
                );
            self.record_change(&transaction, &caller.actor(), audit, &record, None)
                .await?;
            Ok(CreatedPersonalKey { value, record })
        };
        let rolled = rolled.await;
        self.0.finish(transaction, rolled).await
    }

    /// Deletes one of the caller's keys. It is refused from the next request on.
    ///
    /// # Errors
    ///
    /// No such key, or it does not fit within the caller's.
    pub async fn delete_own(self, caller: &Caller, id: Uuid) -> Result<(), ChangeError> {
        let transaction = self.0.begin().await?;
        let deleted = async {
            let own = self.own_constraints(&transaction, caller).await?;
            let key = fitting_key(&transaction, caller, &own, id).await?;
            self.end(&transaction, &caller.actor(), &key).await?;
            Ok(())
        };
        let deleted = deleted.await;
        self.0.finish(transaction, deleted).await
    }

    /// Locks the caller's user, and reads the present constraints of the caller's key. A session
    /// has none.
    async fn own_constraints(
        self,
        within: &DatabaseTransaction,
        caller: &Caller,
    ) -> Result<KeyConstraints, Abort> {
        lock_user(within, caller.user.id).await?;
        let key_id = match caller.credential {
            Credential::Key(id) => id,
            Credential::Session(id) => {
                sessions::must_be_in_force(within, id, self.0.now()).await?;
                return Ok(KeyConstraints::none());
            }
        };
        let own = keys::Entity::find_by_id(key_id)
            .filter(in_force(self.0.now()))
            .one(within)
            .await?;
        let own = own.ok_or_else(|| ChangeError::forbidden("This key was revoked just now."))?;
        Ok(KeyConstraints::of(&own))
    }
}

/// Query for the caller's keys that are not revoked.
fn kept_by(caller: &Caller) -> Select<keys::Entity> {
    keys::Entity::find()
        .filter(keys::Column::UserId.eq(caller.user.id))
        .filter(keys::Column::RevokedAt.is_null())
}

/// Reads one of the caller's keys; refuses one that does not fit within the presented key.
async fn fitting_key(
    within: &DatabaseTransaction,
    caller: &Caller,
    own: &KeyConstraints,
    id: Uuid,
) -> Result<keys::Model, Abort> {
    let query = kept_by(caller).filter(keys::Column::Id.eq(id));
    let found = query.one(within).await?;
    let key = found.ok_or_else(|| ChangeError::not_found("personal key", &id))?;
    must_fit(own, &KeyConstraints::of(&key))?;
    Ok(key)
}
