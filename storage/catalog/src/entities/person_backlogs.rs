//! Projects with a backlog, which have a position of their own, so that others do not wait.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// Progress of one project.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "person_backlogs")]
pub struct Model {
    /// Project with the backlog.
    #[sea_orm(primary_key, auto_increment = false)]
    pub team_id: i64,
    /// Position of the last of its updates that was applied: time of arrival.
    pub created_at: UtcTime,
    /// Position, continued: request that brought the update.
    pub request_id: Uuid,
    /// Position, continued: index in the request; -1 before the first.
    pub position: i64,
    /// Step that applied it; 0 before the first.
    pub version: i64,
    /// Arrival time before which every update of the project is applied, with its changes in
    /// ClickHouse; null at first.
    pub passed: Option<UtcTime>,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
