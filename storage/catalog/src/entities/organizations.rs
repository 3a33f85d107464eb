//! Organizations: who owns projects and has members.

use crate::UtcTime;
use sea_orm::FromJsonQueryResult;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};
use serde::{Deserialize, Serialize};

/// One organization.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "organizations")]
pub struct Model {
    /// UUID v7: the order of ids is the order of creation.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// At most 64 characters.
    pub name: String,
    /// Made of the name when it was created; never changes.
    #[sea_orm(unique)]
    pub slug: String,
    /// When it was made.
    pub created_at: UtcTime,
    /// When a field last changed.
    pub updated_at: UtcTime,
    /// Whether members are told by mail of those who join.
    pub is_member_join_email_enabled: bool,
    /// Whether front ends must ask for a second factor; null: never decided.
    pub enforce_2fa: Option<bool>,
    /// Whether members below administrator may change pipelines.
    pub members_can_write_pipelines: bool,
    /// 0 none, 3 configure, 6 install, 9 root.
    pub plugins_access_level: i16,
    /// The number of the customer at whoever bills for it.
    pub customer_id: Option<String>,
    /// What an operator took away; everything else is on.
    pub disabled_features: FeatureKeys,
    /// How many members it has; changed with them, in the same transaction.
    pub member_count: i64,
}

/// Names of features, a JSON array of strings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct FeatureKeys(pub Vec<String>);

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
