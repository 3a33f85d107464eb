//! Users who have nothing any more: no organization, no invite and no key in force.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};

/// User who has nothing any more. The row is deleted with the user, or when there is something
/// again.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "unused_users")]
pub struct Model {
    /// Number of the user.
    #[sea_orm(primary_key, auto_increment = false)]
    pub user_id: i64,
    /// Time at which that was found.
    pub since: UtcTime,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
