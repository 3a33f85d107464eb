//! Members of roles.

use super::{organization_memberships, users};
use crate::UtcTime;
use sea_orm::RelationDef;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Related, Uuid,
};

/// Member of a role; deleted with either of them.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "role_memberships")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Role of the member.
    pub role_id: Uuid,
    /// Membership in the role's organization.
    pub membership_id: Uuid,
    /// Time of joining the role.
    pub joined_at: UtcTime,
    /// Time at which a field last changed.
    pub updated_at: UtcTime,
}

/// Relations, defined below.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl Related<organization_memberships::Entity> for Entity {
    fn to() -> RelationDef {
        Self::belongs_to(organization_memberships::Entity)
            .from(Column::MembershipId)
            .to(organization_memberships::Column::Id)
            .into()
    }
}

impl Related<users::Entity> for organization_memberships::Entity {
    fn to() -> RelationDef {
        Self::belongs_to(users::Entity)
            .from(organization_memberships::Column::UserId)
            .to(users::Column::Id)
            .into()
    }
}

impl ActiveModelBehavior for ActiveModel {}
