//! Roles: names under which an organization gathers members.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveActiveEnum, DeriveEntityModel, DerivePrimaryKey, DeriveRelation,
    EntityTrait, EnumIter, PrimaryKeyTrait, Uuid,
};

/// One role.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "roles")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Whose it is.
    pub organization_id: Uuid,
    /// At most 200 characters.
    pub name: String,
    /// The name in lower case, which an organization has once.
    pub name_key: String,
    /// What front ends let its members do with feature flags.
    pub feature_flags_access_level: FlagsAccess,
    /// Who made it; null: the operator, or gone.
    pub created_by_id: Option<i64>,
    /// When it was made.
    pub created_at: UtcTime,
}

/// What the members of a role may do with feature flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "i16", db_type = "SmallInteger")]
pub enum FlagsAccess {
    /// See them.
    View = 21,
    /// Change them.
    Edit = 37,
}

impl FlagsAccess {
    /// The access of a number; `None` if there is none.
    #[must_use]
    pub const fn of(number: i64) -> Option<Self> {
        match number {
            21 => Some(Self::View),
            37 => Some(Self::Edit),
            _ => None,
        }
    }

    /// The number that the API and the tables use.
    #[must_use]
    pub const fn number(self) -> i16 {
        self as i16
    }
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
