//! Personal keys of the admin API. The keys themselves are not kept.

use crate::{Scopes, UtcTime};
use sea_orm::FromJsonQueryResult;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};
use serde::{Deserialize, Serialize};

/// Personal key.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "personal_api_keys")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Owner of the key, whose rights it never exceeds.
    pub user_id: i64,
    /// Label for people; at most 40 characters.
    pub label: String,
    /// SHA-256 of the key, in hex.
    #[sea_orm(unique)]
    pub key_hash: String,
    /// Masked key: first 4 characters, `...`, last 4.
    pub mask_value: String,
    /// Scopes of the key.
    pub scopes: Scopes,
    /// Only organizations that the key can see; null: all of its owner's.
    pub scoped_organizations: Option<OrganizationIds>,
    /// Time at which it stops working; null: never.
    pub expires_at: Option<UtcTime>,
    /// Time at which it last worked; written at most hourly.
    pub last_used_at: Option<UtcTime>,
    /// Time at which its value was last replaced.
    pub last_rolled_at: Option<UtcTime>,
    /// Time at which it was revoked; `cleanup` deletes the row later.
    pub revoked_at: Option<UtcTime>,
    /// Time of creation.
    pub created_at: UtcTime,
}

/// Ids of organizations, a JSON array of strings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct OrganizationIds(pub Vec<Uuid>);

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
