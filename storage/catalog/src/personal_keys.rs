//! Personal keys: making, finding, revoking.

use crate::activity::{Activity, ActivityScope, Deed};
use crate::actor::Actor;
use crate::catalog::Catalog;
use crate::entities::personal_api_keys::{self as keys, OrganizationIds};
use crate::entities::{organization_memberships as memberships, users};
use crate::error::{CatalogError, ChangeError};
use crate::key::{PersonalKey, mask};
use crate::organizations::checked_name;
use crate::scopes::Scopes;
use crate::time::UtcTime;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::Condition;
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
};

/// The longest label, in characters.
const LABEL_CHARS_MAX: usize = 40;
/// The most keys in force that a user may have.
const KEYS_PER_USER_MAX: u64 = 100;
/// How old the time of last use may grow before it is written again, in microseconds.
const LAST_USED_STEP_MICROS: i64 = 3_600_000_000;

/// In how many organizations' logs a key's changes are written at most, oldest memberships first.
const ORGANIZATIONS_TOLD_MAX: u64 = 100;

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

/// A key that was just made: the only time that its value is known.
#[derive(Clone, Debug)]
pub struct CreatedPersonalKey {
    /// The secret; show it once.
    pub value: PersonalKey,
    /// What is kept.
    pub record: keys::Model,
}

/// Who makes a request of the admin API, and what their key allows.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The key's owner.
    pub user: users::Model,
    /// Which key.
    pub key_id: Uuid,
    /// What it may do; never more than its owner may now.
    pub scopes: Scopes,
    /// The only organizations it sees.
    pub scoped_organizations: Option<OrganizationIds>,
}

impl Caller {
    /// Who will have made the changes of this request.
    #[must_use]
    pub fn actor(&self) -> Actor {
        Actor::user(&self.user, Some(self.key_id))
    }
}

impl Catalog {
    /// Makes a personal key.
    ///
    /// # Errors
    ///
    /// No such user, a bad label, an expiry that has passed, or too many keys.
    pub async fn create_personal_key(
        &self,
        actor: &Actor,
        new: NewPersonalKey,
    ) -> Result<CreatedPersonalKey, ChangeError> {
        let label = checked_name("the label of a key", "label", &new.label, LABEL_CHARS_MAX)?;
        let now = self.now();
        if new.expires_at.is_some_and(|at| at <= now) {
            return Err(ChangeError::Expired);
        }
        let value = PersonalKey::generate()?;
        let not_found = || ChangeError::NotFound {
            what: "user",
            name: new.email.clone(),
        };
        let user = self
            .user_by_email(&new.email)
            .await?
            .ok_or_else(not_found)?;
        let transaction = self.begin().await?;
        let had = in_force(now).add(keys::Column::UserId.eq(user.id));
        let had = keys::Entity::find().filter(had).count(&transaction).await;
        let had = had.map_err(|error| self.error(&error))?;
        if had >= KEYS_PER_USER_MAX {
            return Err(ChangeError::TooManyKeys(had));
        }
        let terms = Terms {
            label,
            scopes: new.scopes,
            expires_at: new.expires_at,
            scoped_organizations: new.scoped_organizations.map(OrganizationIds),
        };
        let made = insert_personal_key(&transaction, user.id, &value, terms, now).await;
        let record = made.map_err(|error| self.error(&error))?;
        let deed = key_deed(Activity::Created, &record)
            .field("label", (), &record.label)
            .field("scopes", (), &record.scopes);
        let noted = self.record_of_key(&transaction, actor, deed, &record).await;
        noted.map_err(|error| self.error(&error))?;
        self.commit(transaction).await?;
        Ok(CreatedPersonalKey { value, record })
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
        let transaction = self.begin().await?;
        let found = keys::Entity::find()
            .filter(which)
            .filter(keys::Column::RevokedAt.is_null())
            .one(&transaction)
            .await
            .map_err(|error| self.error(&error))?;
        let found = found.ok_or_else(|| ChangeError::NotFound {
            what: "personal key",
            name: mask(id_or_key),
        })?;
        let change = keys::ActiveModel {
            id: ActiveValue::Unchanged(found.id),
            revoked_at: ActiveValue::Set(Some(self.now())),
            ..Default::default()
        };
        let revoked = keys::Entity::update(change).exec(&transaction).await;
        let revoked = revoked.map_err(|error| self.error(&error))?;
        let deed = key_deed(Activity::Deleted, &revoked);
        let noted = self
            .record_of_key(&transaction, actor, deed, &revoked)
            .await;
        noted.map_err(|error| self.error(&error))?;
        self.commit(transaction).await?;
        Ok(revoked)
    }

    /// Who presents a key. `None` if it is malformed, unknown, revoked or expired, or its owner
    /// inactive.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn authenticate(&self, presented: &str) -> Result<Option<Caller>, CatalogError> {
        let Ok(key) = PersonalKey::parse(presented) else {
            return Ok(None);
        };
        let now = self.now();
        let found = keys::Entity::find()
            .filter(in_force(now).add(keys::Column::KeyHash.eq(key.hash())))
            .one(&self.db)
            .await
            .map_err(|error| self.error(&error))?;
        let Some(record) = found.filter(|record| key.has_hash(&record.key_hash)) else {
            return Ok(None);
        };
        let owner = users::Entity::find_by_id(record.user_id)
            .one(&self.db)
            .await;
        let owner = owner.map_err(|error| self.error(&error))?;
        let Some(user) = owner.filter(|user| user.is_active) else {
            return Ok(None);
        };
        if let Err(error) = self.touch(&record, now).await {
            // Reading may go on while writing cannot: a full disk, a standby.
            tracing::warn!(%error, key = record.mask_value, "time of last use not written");
        }
        Ok(Some(Caller {
            user,
            key_id: record.id,
            scopes: record.scopes,
            scoped_organizations: record.scoped_organizations,
        }))
    }

    /// Writes a key's deed into the logs of the organizations that it reaches: a key belongs to
    /// its owner, but those are whom it concerns.
    pub(crate) async fn record_of_key(
        &self,
        within: &DatabaseTransaction,
        actor: &Actor,
        deed: Deed,
        key: &keys::Model,
    ) -> Result<(), DbErr> {
        let mut reached = memberships::Entity::find()
            .filter(memberships::Column::UserId.eq(key.user_id))
            .order_by_asc(memberships::Column::JoinedAt)
            .order_by_asc(memberships::Column::Id);
        if let Some(only) = &key.scoped_organizations {
            let only = only.0.iter().copied();
            reached = reached.filter(memberships::Column::OrganizationId.is_in(only));
        }
        let reached = reached.limit(ORGANIZATIONS_TOLD_MAX).all(within).await?;
        for membership in &reached {
            let seen = deed.seen_by(Some(membership.organization_id));
            self.record(within, actor, seen).await?;
        }
        if reached.is_empty() {
            self.record(within, actor, deed).await?;
        }
        Ok(())
    }

    /// Writes the time of last use, at most hourly.
    async fn touch(&self, record: &keys::Model, now: UtcTime) -> Result<(), CatalogError> {
        let due = UtcTime(now.0.saturating_sub(LAST_USED_STEP_MICROS));
        if record.last_used_at.is_some_and(|at| at > due) {
            return Ok(());
        }
        let change = keys::ActiveModel {
            id: ActiveValue::Unchanged(record.id),
            last_used_at: ActiveValue::Set(Some(now)),
            ..Default::default()
        };
        let touched = keys::Entity::update(change).exec(&self.db).await;
        touched.map(drop).map_err(|error| self.error(&error))
    }
}

pub(crate) fn key_deed(activity: Activity, key: &keys::Model) -> Deed {
    Deed::new(
        activity,
        ActivityScope::PersonalKey,
        None,
        &key.id,
        &key.label,
    )
}

/// Keys that work at `now`.
fn in_force(now: UtcTime) -> Condition {
    Condition::all().add(keys::Column::RevokedAt.is_null()).add(
        Condition::any()
            .add(keys::Column::ExpiresAt.is_null())
            .add(keys::Column::ExpiresAt.gt(now)),
    )
}

/// What a key may do and for how long.
pub(crate) struct Terms {
    pub(crate) label: String,
    pub(crate) scopes: Scopes,
    pub(crate) expires_at: Option<UtcTime>,
    pub(crate) scoped_organizations: Option<OrganizationIds>,
}

pub(crate) async fn insert_personal_key<C: ConnectionTrait>(
    db: &C,
    user_id: i64,
    value: &PersonalKey,
    terms: Terms,
    now: UtcTime,
) -> Result<keys::Model, DbErr> {
    let row = keys::ActiveModel {
        id: ActiveValue::Set(Uuid::now_v7()),
        user_id: ActiveValue::Set(user_id),
        label: ActiveValue::Set(terms.label),
        key_hash: ActiveValue::Set(value.hash()),
        mask_value: ActiveValue::Set(value.mask()),
        scopes: ActiveValue::Set(terms.scopes),
        scoped_organizations: ActiveValue::Set(terms.scoped_organizations),
        expires_at: ActiveValue::Set(terms.expires_at),
        last_used_at: ActiveValue::Set(None),
        last_rolled_at: ActiveValue::Set(None),
        revoked_at: ActiveValue::Set(None),
        created_at: ActiveValue::Set(now),
    };
    keys::Entity::insert(row).exec_with_returning(db).await
}
