//! Imports of past events that an organization asks for.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveActiveEnum, DeriveEntityModel, DerivePrimaryKey, DeriveRelation,
    EntityTrait, EnumIter, PrimaryKeyTrait, Uuid,
};

/// Import of past events.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "historical_migrations")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Organization that asked for the import.
    pub organization_id: Uuid,
    /// Project that the events go to.
    pub team_id: i64,
    /// Source of the events.
    pub source: String,
    /// Method of the import.
    pub method: String,
    /// Events in all.
    pub total_events: i64,
    /// Events in a minute.
    pub events_per_minute: i64,
    /// State of the import.
    pub state: MigrationState,
    /// Events that came since it was approved.
    pub events_imported: i64,
    /// Events that nodes were leased of it, less those that they returned: those imported, those
    /// that nodes may still import, and those that a crash forfeited.
    pub events_leased: i64,
    /// Time at which it was asked for.
    pub created_at: UtcTime,
    /// Time at which it was approved or rejected.
    pub decided_at: Option<UtcTime>,
    /// Note of the operator who decided.
    pub note: Option<String>,
}

/// State of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum MigrationState {
    /// It waits for a decision.
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
