//! Who belongs to which organization, and with which level.

use crate::{Level, UtcTime};
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// One membership; a user has at most one in an organization.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "organization_memberships")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Where.
    pub organization_id: Uuid,
    /// Who.
    pub user_id: i64,
    /// What they may do there.
    pub level: Level,
    /// When they came.
    pub joined_at: UtcTime,
    /// When the level last changed.
    pub updated_at: UtcTime,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
