//! Persons, the state that events' updates lead to.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// Person of a project.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "persons")]
pub struct Model {
    /// Project of the person.
    #[sea_orm(primary_key, auto_increment = false)]
    pub team_id: i64,
    /// Result of `millrace_rows::person_id` for the id that the person was first known by.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Time of the first event about the person.
    pub created_at: UtcTime,
    /// True if the person was ever named: then only `$merge_dangerously` merges it into another.
    pub is_identified: bool,
    /// True if it was merged into another person; it stays so for good. Its properties are kept
    /// where a `$identify` did that: they are shown with the person that has its distinct id.
    pub is_deleted: bool,
    /// Properties, each with the time at which it was written, as JSON.
    pub properties: String,
    /// Step that changed the row last.
    pub version: i64,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
