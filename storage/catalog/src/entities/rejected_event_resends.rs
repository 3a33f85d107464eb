//! Requests with rejected events that are sent again, while they are under way.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// Request of a project that is on its way to the server; a project has one at a time.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "rejected_event_resends")]
pub struct Model {
    /// Project of the events.
    #[sea_orm(primary_key, auto_increment = false)]
    pub team_id: i64,
    /// Id of the request, another one for each.
    pub id: Uuid,
    /// True if the events are part of a historical migration.
    pub historical_migration: bool,
    /// Keys of the events, and their JSON as it is sent.
    pub request: String,
    /// Time at which the request began.
    pub created_at: UtcTime,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
