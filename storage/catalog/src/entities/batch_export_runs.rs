//! Runs of batch exports.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveActiveEnum, DeriveEntityModel, DerivePrimaryKey, DeriveRelation,
    EntityTrait, EnumIter, PrimaryKeyTrait, Uuid,
};
use serde::{Deserialize, Serialize};

/// Run: one window of an export.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "batch_export_runs")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Export that the run is of.
    pub batch_export_id: Uuid,
    /// Number among the export's runs, from 1: lists are in this order.
    pub ordinal: i64,
    /// Backfill that the run is for; null: it came by the clock.
    pub backfill_id: Option<Uuid>,
    /// Status of the run.
    pub status: RunStatus,
    /// Start of the window, inclusive; null: from the beginning.
    pub data_interval_start: Option<UtcTime>,
    /// End of the window, exclusive.
    pub data_interval_end: UtcTime,
    /// Rows that arrived.
    pub records_completed: Option<i64>,
    /// Rows that the window has.
    pub records_total_count: Option<i64>,
    /// Position from which the run goes on after a restart.
    pub cursor: Option<String>,
    /// Latest error.
    pub latest_error: Option<String>,
    /// Time of creation.
    pub created_at: UtcTime,
    /// Time at which it reached a status that ends it.
    pub finished_at: Option<UtcTime>,
    /// Time of the last change.
    pub last_updated_at: UtcTime,
    /// Bytes that arrived, as they were sent.
    pub bytes_exported: Option<i64>,
    /// Id of the claim under which it is made: records under another claim are refused. Null: it is
    /// not claimed.
    pub claim: Option<Uuid>,
    /// Time at which the claim lapses, in microseconds of the database's clock.
    pub claim_lapses_at: i64,
    /// Time from which it may be claimed, in microseconds of the database's clock.
    pub next_try_at: i64,
    /// Number of tries that failed.
    pub failures_count: i32,
}

/// Status of a run or a backfill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "PascalCase")]
pub enum RunStatus {
    /// It waits to be claimed.
    Starting,
    /// Rows are being sent.
    Running,
    /// All rows arrived.
    Completed,
    /// It was given up.
    Failed,
    /// It failed and is tried again.
    FailedRetryable,
    /// Somebody cancelled it.
    Cancelled,
    /// Its export was deleted or paused under it.
    Terminated,
    /// It took too long.
    TimedOut,
}

impl RunStatus {
    /// Returns true if the run or backfill has not ended.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Starting | Self::Running | Self::FailedRetryable)
    }

    /// Statuses for which [`RunStatus::is_open`] is true.
    pub const OPEN: [Self; 3] = [Self::Starting, Self::Running, Self::FailedRetryable];
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
