//! Users.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// User with an account.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "users")]
pub struct Model {
    /// Number of the user.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// UUID v7.
    #[sea_orm(unique)]
    pub uuid: Uuid,
    /// Distinct id of the user's own events.
    pub distinct_id: String,
    /// E-mail address in lower case.
    #[sea_orm(unique)]
    pub email: String,
    /// First name; may be empty.
    pub first_name: String,
    /// Last name; may be empty.
    pub last_name: String,
    /// True if the address was proved.
    pub is_email_verified: Option<bool>,
    /// False: the user's keys are refused.
    pub is_active: bool,
    /// Time of creation.
    pub created_at: UtcTime,
    /// Time at which a field last changed.
    pub updated_at: UtcTime,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
