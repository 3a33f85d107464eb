//! Persons, as what events say has made them.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// One person.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "persons")]
pub struct Model {
    /// Whose.
    #[sea_orm(primary_key, auto_increment = false)]
    pub team_id: i64,
    /// `millrace_rows::person_id` of the id that it was first known by.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// When the first event happened that said anything of it.
    pub created_at: UtcTime,
    /// Whether it was ever named: then it only becomes part of another by `$merge_dangerously`.
    pub is_identified: bool,
    /// Whether it became part of another; it stays so for good. Its properties are kept where a
    /// `$identify` did that: they are shown as those of whoever has its distinct id.
    pub is_deleted: bool,
    /// Each property with the time at which it was written, as JSON.
    pub properties: String,
    /// The step that changed it last.
    pub version: i64,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
