//! Progress of applying updates of persons and groups.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// Id of the only row.
pub const ROW: i32 = 1;

/// Only row of the table.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "person_progress")]
pub struct Model {
    /// Always [`ROW`].
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i32,
    /// Position of the last update that was applied: time of arrival.
    pub created_at: UtcTime,
    /// Position, continued: request that brought the update.
    pub request_id: Uuid,
    /// Position, continued: index in the request; -1 before the first.
    pub position: i64,
    /// Number of the last step.
    pub version: i64,
    /// Last step whose changes are all in ClickHouse.
    pub copied: i64,
    /// Arrival time before which every update is applied, with its changes in ClickHouse; null at
    /// first.
    pub passed: Option<UtcTime>,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
