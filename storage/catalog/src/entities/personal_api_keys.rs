//! Personal keys: what opens the admin API. The key itself is not kept.

use crate::{Scopes, UtcTime};
use sea_orm::FromJsonQueryResult;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};
use serde::{Deserialize, Serialize};

/// One key.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "personal_api_keys")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Whose it is; its power never exceeds theirs.
    pub user_id: i64,
    /// What its owner calls it; at most 40 characters.
    pub label: String,
    /// SHA-256 of the key, in hex.
    #[sea_orm(unique)]
    pub key_hash: String,
    /// First 4 characters, `...`, last 4.
    pub mask_value: String,
    /// What it may do.
    pub scopes: Scopes,
    /// The only organizations it sees; null: all of its owner's.
    pub scoped_organizations: Option<OrganizationIds>,
    /// When it stops working; null: never.
    pub expires_at: Option<UtcTime>,
    /// When it last worked; written at most hourly.
    pub last_used_at: Option<UtcTime>,
    /// When its value was last replaced.
    pub last_rolled_at: Option<UtcTime>,
    /// When it was revoked; kept, so that one can still tell whose it was.
    pub revoked_at: Option<UtcTime>,
    /// When it was made.
    pub created_at: UtcTime,
}

/// Ids of organizations, a JSON array of strings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct OrganizationIds(pub Vec<Uuid>);

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
