//! Organizations, which own projects and have members.

use crate::UtcTime;
use sea_orm::FromJsonQueryResult;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};
use serde::{Deserialize, Serialize};

/// Organization.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "organizations")]
pub struct Model {
    /// UUID v7: the order of ids is the order of creation.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Name, at most 64 characters.
    pub name: String,
    /// Slug, made of the name at creation; never changes.
    #[sea_orm(unique)]
    pub slug: String,
    /// Time of creation.
    pub created_at: UtcTime,
    /// Time at which a field last changed.
    pub updated_at: UtcTime,
    /// True if members are told by mail of those who join.
    pub is_member_join_email_enabled: bool,
    /// True if front ends must ask for a second factor; null: never decided.
    pub enforce_2fa: Option<bool>,
    /// True if members below administrator may change pipelines.
    pub members_can_write_pipelines: bool,
    /// Access to plugins: 0 none, 3 configure, 6 install, 9 root.
    pub plugins_access_level: i16,
    /// Number of the customer in the billing system.
    pub customer_id: Option<String>,
    /// Features that an operator took away; everything else is on.
    pub disabled_features: FeatureKeys,
    /// Number of members; changed with them, in the same transaction.
    pub member_count: i64,
}

/// Names of features, a JSON array of strings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct FeatureKeys(pub Vec<String>);

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
