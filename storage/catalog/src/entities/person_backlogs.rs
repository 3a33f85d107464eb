//! Projects with so much to apply that they have a place of their own, so that others do not wait.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// Progress of one project.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "person_backlogs")]
pub struct Model {
    /// The project.
    #[sea_orm(primary_key, auto_increment = false)]
    pub team_id: i64,
    /// The last of its updates that was applied: when it arrived …
    pub created_at: UtcTime,
    /// … in which request …
    pub request_id: Uuid,
    /// … at which place of it; -1 before the first.
    pub position: i64,
    /// The step that applied it; 0 before the first.
    pub version: i64,
    /// Every update of the project that arrived before is applied, and what it changed is in
    /// ClickHouse; null at first.
    pub passed: Option<UtcTime>,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
