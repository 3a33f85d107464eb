//! Backfills: past times that somebody wants exported.

use super::batch_export_runs::RunStatus;
use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, Json, PrimaryKeyTrait, Uuid,
};

/// One backfill.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "batch_export_backfills")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Of which export.
    pub batch_export_id: Uuid,
    /// From when on; null: from the beginning.
    pub start_at: Option<UtcTime>,
    /// Until when; null: until it is made.
    pub end_at: Option<UtcTime>,
    /// How far it is.
    pub status: RunStatus,
    /// How many runs it takes; null until that is known.
    pub total_runs: Option<i64>,
    /// How many of them are done.
    pub finished_runs: i64,
    /// When somebody asked for it.
    pub created_at: UtcTime,
    /// When it reached a status that ends it.
    pub finished_at: Option<UtcTime>,
    /// When any of this last changed.
    pub last_updated_at: UtcTime,
    /// Why it has no runs, or was given up, for people; null otherwise.
    pub message: Option<String>,
    /// What its export exported when it was asked for; null in those of versions that did not keep it, which
    /// export what their export does.
    pub asked_for: Option<Json>,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
