//! People.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// One person with an account.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "users")]
pub struct Model {
    /// Number.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// UUID v7.
    #[sea_orm(unique)]
    pub uuid: Uuid,
    /// The id under which the person's own events would come.
    pub distinct_id: String,
    /// Lower case.
    #[sea_orm(unique)]
    pub email: String,
    /// May be empty.
    pub first_name: String,
    /// May be empty.
    pub last_name: String,
    /// Whether the address was proved.
    pub is_email_verified: Option<bool>,
    /// An inactive person's keys are refused.
    pub is_active: bool,
    /// When the account was made.
    pub created_at: UtcTime,
    /// When a field last changed.
    pub updated_at: UtcTime,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
