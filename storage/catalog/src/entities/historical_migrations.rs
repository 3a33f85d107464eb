//! Imports of past events that an organization asks for.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveActiveEnum, DeriveEntityModel, DerivePrimaryKey, DeriveRelation,
    EntityTrait, EnumIter, PrimaryKeyTrait, Uuid,
};

/// One import.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "historical_migrations")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Whose it is.
    pub organization_id: Uuid,
    /// Where the events go.
    pub team_id: i64,
    /// Where the events come from.
    pub source: String,
    /// How they come.
    pub method: String,
    /// How many in all.
    pub total_events: i64,
    /// How fast.
    pub events_per_minute: i64,
    /// How far it is.
    pub state: MigrationState,
    /// How many came since it was approved.
    pub events_imported: i64,
    /// When it was asked for.
    pub created_at: UtcTime,
    /// When it was approved or rejected.
    pub decided_at: Option<UtcTime>,
    /// What whoever decided has to say.
    pub note: Option<String>,
}

/// How far an import is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum MigrationState {
    /// Nobody decided yet.
    Requested,
    /// It may run.
    Approved,
    /// It may not.
    Rejected,
    /// It ran, or was given up.
    Finished,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
