//! Runs of batch exports.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveActiveEnum, DeriveEntityModel, DerivePrimaryKey, DeriveRelation,
    EntityTrait, EnumIter, PrimaryKeyTrait, Uuid,
};
use serde::{Deserialize, Serialize};

/// One run: a window of an export on its way.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "batch_export_runs")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Of which export.
    pub batch_export_id: Uuid,
    /// Its place among the export's runs, from 1: lists are in this order.
    pub ordinal: i64,
    /// For which backfill; null: it came by the clock.
    pub backfill_id: Option<Uuid>,
    /// How far it is.
    pub status: RunStatus,
    /// The window's start, within it; null: from the beginning.
    pub data_interval_start: Option<UtcTime>,
    /// The window's end, no more within it.
    pub data_interval_end: UtcTime,
    /// How many rows arrived.
    pub records_completed: Option<i64>,
    /// How many rows the window has.
    pub records_total_count: Option<i64>,
    /// Where it goes on after a restart.
    pub cursor: Option<String>,
    /// What last went wrong.
    pub latest_error: Option<String>,
    /// When it was made.
    pub created_at: UtcTime,
    /// When it reached a status that ends it.
    pub finished_at: Option<UtcTime>,
    /// When any of this last changed.
    pub last_updated_at: UtcTime,
    /// Bytes that arrived, as they were sent.
    pub bytes_exported: Option<i64>,
    /// Whose it is while it is made: what is recorded under another claim is not. Null: nobody's.
    pub claim: Option<Uuid>,
    /// Until when, in microseconds of the database's clock.
    pub claim_lapses_at: i64,
    /// From when on it may be claimed, likewise.
    pub next_try_at: i64,
    /// How many tries failed.
    pub failures_count: i32,
}

/// How far a run or a backfill is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "PascalCase")]
pub enum RunStatus {
    /// It waits for its turn.
    Starting,
    /// Rows are on their way.
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
    /// Whether there is more to come.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Starting | Self::Running | Self::FailedRetryable)
    }

    /// The statuses that [`RunStatus::is_open`] says are open.
    pub(crate) const OPEN: [Self; 3] = [Self::Starting, Self::Running, Self::FailedRetryable];
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
