//! Roles: named groups of an organization's members.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveActiveEnum, DeriveEntityModel, DerivePrimaryKey, DeriveRelation,
    EntityTrait, EnumIter, PrimaryKeyTrait, Uuid,
};

/// Role.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "roles")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Organization of the role.
    pub organization_id: Uuid,
    /// Name, at most 200 characters.
    pub name: String,
    /// Name in lower case, unique in the organization.
    pub name_key: String,
    /// Access to feature flags that front ends give its members.
    pub feature_flags_access_level: FlagsAccess,
    /// User who created it; null: the operator, or a user who is gone.
    pub created_by_id: Option<i64>,
    /// Time of creation.
    pub created_at: UtcTime,
}

/// Access of a role's members to feature flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "i16", db_type = "SmallInteger")]
pub enum FlagsAccess {
    /// They may see flags.
    View = 21,
    /// They may change flags.
    Edit = 37,
}

impl FlagsAccess {
    /// Access of a number; `None` if there is none.
    #[must_use]
    pub const fn of(number: i64) -> Option<Self> {
        match number {
            21 => Some(Self::View),
            37 => Some(Self::Edit),
            _ => None,
        }
    }

    /// Number that the API and the tables use.
    #[must_use]
    pub const fn number(self) -> i16 {
        self as i16
    }
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
