//! How far what events say of persons has been applied.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// The one row.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "person_progress")]
pub struct Model {
    /// 1.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i32,
    /// The last update that was applied: when it arrived …
    pub created_at: UtcTime,
    /// … in which request …
    pub request_id: Uuid,
    /// … at which place of it; -1 before the first.
    pub position: i64,
    /// The last step.
    pub version: i64,
    /// The last step of which everything is in ClickHouse.
    pub copied: i64,
    /// Every update that arrived before is applied, and what it changed is in ClickHouse; null at
    /// first.
    pub passed: Option<UtcTime>,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
