//! Personal keys, the credentials of the organization API.
//!
//! | Module | Holds |
//! |---|---|
//! | `handle` | [`PersonalKeys`], which has the operations |
//! | `authenticate` | caller of a presented key |
//! | `operator` | keys that the operator creates, lists and revokes |
//! | `key_policy` | rule that a key creates and changes only keys within its own constraints |
//! | `input` | what is sent to create and to change such a key |
//! | `owned` | keys that another key of the same owner manages |
//! | `audit` | entries about a key in the logs of its organizations |
//!
//! A key's permissions are its scopes and organizations, within the present permissions of its
//! owner.

mod audit;
mod authenticate;
mod handle;
mod input;
mod key_policy;
mod operator;
mod owned;

pub use handle::PersonalKeys;
pub use input::{NewOwnKey, OwnKeyChange};
pub use operator::NewPersonalKey;

use crate::names::checked_name;
use millrace_catalog::cleanup::{in_force, mark_used};
use millrace_catalog::entities::personal_api_keys::{self as keys, OrganizationIds};
use millrace_catalog::key::PersonalKey;
use millrace_catalog::limits::{ENDED_KEYS_PER_USER_MAX, KEYS_PER_USER_MAX};
use millrace_catalog::transaction::Abort;
use millrace_catalog::{Activity, ActivityScope, Actor, AuditChange, ChangeError, Scopes, UtcTime};
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    PaginatorTrait, QueryFilter, QueryOrder,
};

/// Longest label, in characters.
const LABEL_CHARS_MAX: usize = 40;

/// Key with its new value, which is known only now.
#[derive(Clone, Debug)]
pub struct CreatedPersonalKey {
    /// Secret; show it once.
    pub value: PersonalKey,
    /// Row of the key.
    pub record: keys::Model,
}

/// Label and constraints of a key: scopes, organizations and expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyConstraints {
    pub(crate) label: String,
    pub(crate) scopes: Scopes,
    pub(crate) expires_at: Option<UtcTime>,
    pub(crate) scoped_organizations: Option<OrganizationIds>,
}

impl KeyConstraints {
    /// Constraints of a caller who may do whatever the user may.
    pub(crate) fn none() -> Self {
        Self {
            label: String::new(),
            scopes: Scopes::all(),
            expires_at: None,
            scoped_organizations: None,
        }
    }

    fn of(key: &keys::Model) -> Self {
        Self {
            label: key.label.clone(),
            scopes: key.scopes.clone(),
            expires_at: key.expires_at,
            scoped_organizations: key.scoped_organizations.clone(),
        }
    }
}

impl PersonalKeys<'_> {
    /// Creates a key for a user who is locked, unless the user has the most keys in force. Of too
    /// many that have ended, the one that ended first is deleted.
    pub(crate) async fn add(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        user_id: i64,
        constraints: KeyConstraints,
    ) -> Result<CreatedPersonalKey, Abort> {
        let now = self.0.now();
        if constraints.expires_at.is_some_and(|at| at <= now) {
            return Err(ChangeError::Expired.into());
        }
        self.must_have_fewer(within, user_id).await?;
        delete_first_ended(within, user_id, now).await?;
        let value = PersonalKey::generate()?;
        let record = insert_personal_key(within, user_id, &value, constraints, now).await?;
        mark_used(within, user_id).await?;
        let audit = key_audit(Activity::Created, &record)
            .field("label", (), &record.label)
            .field("scopes", (), &record.scopes)
            .field("expires_at", (), record.expires_at)
            .field("scoped_organizations", (), &record.scoped_organizations);
        self.record_change(within, actor, audit, &record, None)
            .await?;
        Ok(CreatedPersonalKey { value, record })
    }

    /// Refuses one more key in force for a user, who is locked, with the most keys.
    async fn must_have_fewer(
        self,
        within: &DatabaseTransaction,
        user_id: i64,
    ) -> Result<(), Abort> {
        let had = in_force(self.0.now()).add(keys::Column::UserId.eq(user_id));
        let had = keys::Entity::find().filter(had).count(within).await?;
        if had >= KEYS_PER_USER_MAX {
            return Err(ChangeError::TooManyKeys(had).into());
        }
        Ok(())
    }

    /// Revokes a key; `cleanup` deletes its row later.
    async fn end(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        key: &keys::Model,
    ) -> Result<keys::Model, Abort> {
        let change = keys::ActiveModel {
            id: ActiveValue::Unchanged(key.id),
            revoked_at: ActiveValue::Set(Some(self.0.now())),
            ..Default::default()
        };
        let revoked = keys::Entity::update(change).exec(within).await?;
        let audit = key_audit(Activity::Deleted, &revoked);
        self.record_change(within, actor, audit, &revoked, None)
            .await?;
        Ok(revoked)
    }
}

pub(crate) fn key_audit(activity: Activity, key: &keys::Model) -> AuditChange {
    let scope = ActivityScope::PersonalKey;
    AuditChange::new(activity, scope, None, &key.id, &key.label)
}

fn checked_label(label: &str) -> Result<String, ChangeError> {
    checked_name("the label of a key", "label", label, LABEL_CHARS_MAX)
}

/// Deletes the key of a user, who is locked, that ended first, if the user has the most keys that
/// have ended. One is enough, as each was created once; and a single row cannot deadlock with
/// `cleanup`, which deletes many.
async fn delete_first_ended(
    within: &DatabaseTransaction,
    user_id: i64,
    now: UtcTime,
) -> Result<(), DbErr> {
    let ended = keys::Entity::find()
        .filter(keys::Column::UserId.eq(user_id))
        .filter(in_force(now).not());
    if ended.clone().count(within).await? < ENDED_KEYS_PER_USER_MAX {
        return Ok(());
    }
    let revoked_at = Expr::col(keys::Column::RevokedAt);
    let first = ended
        .order_by_asc(revoked_at.if_null(Expr::col(keys::Column::ExpiresAt)))
        .order_by_asc(keys::Column::Id);
    if let Some(first) = first.one(within).await? {
        keys::Entity::delete_by_id(first.id).exec(within).await?;
    }
    Ok(())
}

pub(crate) async fn insert_personal_key<C: ConnectionTrait>(
    db: &C,
    user_id: i64,
    value: &PersonalKey,
    constraints: KeyConstraints,
    now: UtcTime,
) -> Result<keys::Model, DbErr> {
    let row = keys::ActiveModel {
        id: ActiveValue::Set(Uuid::now_v7()),
        user_id: ActiveValue::Set(user_id),
        label: ActiveValue::Set(constraints.label),
        key_hash: ActiveValue::Set(value.hash()),
        mask_value: ActiveValue::Set(value.mask()),
        scopes: ActiveValue::Set(constraints.scopes),
        scoped_organizations: ActiveValue::Set(constraints.scoped_organizations),
        expires_at: ActiveValue::Set(constraints.expires_at),
        last_used_at: ActiveValue::Set(None),
        last_rolled_at: ActiveValue::Set(None),
        revoked_at: ActiveValue::Set(None),
        created_at: ActiveValue::Set(now),
    };
    keys::Entity::insert(row).exec_with_returning(db).await
}
