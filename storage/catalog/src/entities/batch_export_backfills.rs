//! Backfills: exports of past times, asked for by people.

use super::batch_export_runs::RunStatus;
use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, Json, PrimaryKeyTrait, Uuid,
};

/// Backfill of an export.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "batch_export_backfills")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Export that the backfill is of.
    pub batch_export_id: Uuid,
    /// Start of the range; null: from the beginning.
    pub start_at: Option<UtcTime>,
    /// End of the range; null: until it is made.
    pub end_at: Option<UtcTime>,
    /// Status of the backfill.
    pub status: RunStatus,
    /// Number of runs that it takes; null until that is known.
    pub total_runs: Option<i64>,
    /// Number of its runs that have ended.
    pub finished_runs: i64,
    /// Time at which it was asked for.
    pub created_at: UtcTime,
    /// Time at which it reached a status that ends it.
    pub finished_at: Option<UtcTime>,
    /// Time of the last change.
    pub last_updated_at: UtcTime,
    /// Reason why it has no runs, or was given up, for people; null otherwise.
    pub message: Option<String>,
    /// Snapshot of the export's settings when it was asked for; null for backfills of versions
    /// without it, which use the export's present settings.
    pub asked_for: Option<Json>,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
