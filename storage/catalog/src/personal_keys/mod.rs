//! Personal keys: what opens the organization API.
//!
//! | Module | Holds |
//! |---|---|
//! | `authenticate` | who presents a key |
//! | `operator` | keys as the operator makes, lists and revokes them |
//! | `fit` | whether a key fits within another |
//! | `owned` | keys as another key of the same owner manages them |
//! | `told` | which organizations' logs tell of a key, and locks of owners |
//!
//! A key's power is its scopes and organizations, and what its owner may do at that moment.

mod authenticate;
mod fit;
mod operator;
mod owned;
mod told;

pub use authenticate::Caller;
pub use operator::NewPersonalKey;
pub use owned::{NewOwnKey, OwnKeyChange};
use told::lock_user;

use crate::activity::{Activity, ActivityScope, Deed};
use crate::actor::Actor;
use crate::catalog::Catalog;
use crate::entities::personal_api_keys::{self as keys, OrganizationIds};
use crate::error::ChangeError;
use crate::key::PersonalKey;
use crate::limits::KEYS_PER_USER_MAX;
use crate::names::checked_name;
use crate::scopes::Scopes;
use crate::time::UtcTime;
use crate::transaction::Abort;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::Condition;
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    PaginatorTrait, QueryFilter,
};

/// The longest label, in characters.
const LABEL_CHARS_MAX: usize = 40;

/// A key whose value was just made: the only time that it is known.
#[derive(Clone, Debug)]
pub struct CreatedPersonalKey {
    /// The secret; show it once.
    pub value: PersonalKey,
    /// What is kept.
    pub record: keys::Model,
}

/// What a key may do and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) label: String,
    pub(crate) scopes: Scopes,
    pub(crate) expires_at: Option<UtcTime>,
    pub(crate) scoped_organizations: Option<OrganizationIds>,
}

impl Terms {
    fn of(key: &keys::Model) -> Self {
        Self {
            label: key.label.clone(),
            scopes: key.scopes.clone(),
            expires_at: key.expires_at,
            scoped_organizations: key.scoped_organizations.clone(),
        }
    }
}

impl Catalog {
    /// Makes a key for a user who is locked, if there is room for one more.
    pub(crate) async fn add_key(
        &self,
        within: &DatabaseTransaction,
        actor: &Actor,
        user_id: i64,
        terms: Terms,
    ) -> Result<CreatedPersonalKey, Abort> {
        let now = self.now();
        if terms.expires_at.is_some_and(|at| at <= now) {
            return Err(ChangeError::Expired.into());
        }
        self.must_have_room_for_a_key(within, user_id).await?;
        let value = PersonalKey::generate()?;
        let record = insert_personal_key(within, user_id, &value, terms, now).await?;
        let deed = key_deed(Activity::Created, &record)
            .field("label", (), &record.label)
            .field("scopes", (), &record.scopes)
            .field("expires_at", (), record.expires_at)
            .field("scoped_organizations", (), &record.scoped_organizations);
        self.record_of_key(within, actor, deed, &record, None)
            .await?;
        Ok(CreatedPersonalKey { value, record })
    }

    /// Whether a user who is locked may have one more key in force.
    async fn must_have_room_for_a_key(
        &self,
        within: &DatabaseTransaction,
        user_id: i64,
    ) -> Result<(), Abort> {
        let had = in_force(self.now()).add(keys::Column::UserId.eq(user_id));
        let had = keys::Entity::find().filter(had).count(within).await?;
        if had >= KEYS_PER_USER_MAX {
            return Err(ChangeError::TooManyKeys(had).into());
        }
        Ok(())
    }

    /// Revokes a key; the row stays, so that one can still tell whose it was.
    async fn end_key(
        &self,
        within: &DatabaseTransaction,
        actor: &Actor,
        key: &keys::Model,
    ) -> Result<keys::Model, Abort> {
        let change = keys::ActiveModel {
            id: ActiveValue::Unchanged(key.id),
            revoked_at: ActiveValue::Set(Some(self.now())),
            ..Default::default()
        };
        let revoked = keys::Entity::update(change).exec(within).await?;
        let deed = key_deed(Activity::Deleted, &revoked);
        self.record_of_key(within, actor, deed, &revoked, None)
            .await?;
        Ok(revoked)
    }
}

pub(crate) fn key_deed(activity: Activity, key: &keys::Model) -> Deed {
    let scope = ActivityScope::PersonalKey;
    Deed::new(activity, scope, None, &key.id, &key.label)
}

fn checked_label(label: &str) -> Result<String, ChangeError> {
    checked_name("the label of a key", "label", label, LABEL_CHARS_MAX)
}

/// Keys that work at `now`.
fn in_force(now: UtcTime) -> Condition {
    Condition::all().add(keys::Column::RevokedAt.is_null()).add(
        Condition::any()
            .add(keys::Column::ExpiresAt.is_null())
            .add(keys::Column::ExpiresAt.gt(now)),
    )
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
