//! Counts of a project's new distinct ids, groups and bytes of properties, in the hour of the
//! arrivals that are being applied.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};

/// Counts of one project.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "person_new_ids")]
pub struct Model {
    /// Project that is counted.
    #[sea_orm(primary_key, auto_increment = false)]
    pub team_id: i64,
    /// Start of the hour in which the updates arrived.
    pub hour: UtcTime,
    /// Distinct ids and groups that became known by these updates.
    pub made: i64,
    /// Updates that were left out, as there would have been too many.
    pub left_out: i64,
    /// Bytes that properties of persons and groups have grown by with these updates.
    pub bytes: i64,
    /// Updates whose properties were left out, as they would have grown by too much.
    pub bytes_left_out: i64,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
