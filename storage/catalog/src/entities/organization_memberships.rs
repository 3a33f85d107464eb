//! Memberships of users in organizations, with their levels.

use crate::{Level, UtcTime};
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// Membership; a user has at most one in an organization.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "organization_memberships")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Organization of the member.
    pub organization_id: Uuid,
    /// User who is the member.
    pub user_id: i64,
    /// Level of the member.
    pub level: Level,
    /// Time of joining.
    pub joined_at: UtcTime,
    /// Time at which the level last changed.
    pub updated_at: UtcTime,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
