//! New distinct ids and groups of a project in the hour of the arrivals that are being applied.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};

/// Counts of one project.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "person_new_ids")]
pub struct Model {
    /// The project.
    #[sea_orm(primary_key, auto_increment = false)]
    pub team_id: i64,
    /// Start of the hour in which the updates arrived.
    pub hour: UtcTime,
    /// Distinct ids and groups that became known by them.
    pub made: i64,
    /// Updates that were left out, as there would have been too many.
    pub left_out: i64,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
