//! Copies of the newest runs of each export, in one row: every export is answered with ten, and a
//! page of a thousand exports would read ten thousand rows.

use super::batch_export_runs::{self as runs, RunStatus};
use crate::UtcTime;
use sea_orm::FromJsonQueryResult;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};
use serde::{Deserialize, Serialize};
use serde_tuple::{Deserialize_tuple, Serialize_tuple};

/// Newest runs of one export.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "batch_export_latest_runs")]
pub struct Model {
    /// Export of the runs.
    #[sea_orm(primary_key, auto_increment = false)]
    pub batch_export_id: Uuid,
    /// Newest runs, newest first.
    #[sea_orm(column_type = "Json")]
    pub runs: LatestRuns,
}

/// Runs, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct LatestRuns(Vec<LatestRun>);

/// Run without its export; times in microseconds. It is kept without the names of its fields, as to
/// read them for ten thousand runs takes as long as all the rest. New fields go to the end, with a
/// default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize_tuple, Deserialize_tuple)]
struct LatestRun {
    id: Uuid,
    ordinal: i64,
    backfill_id: Option<Uuid>,
    status: RunStatus,
    data_interval_start: Option<i64>,
    data_interval_end: i64,
    records_completed: Option<i64>,
    records_total_count: Option<i64>,
    cursor: Option<String>,
    latest_error: Option<String>,
    created_at: i64,
    finished_at: Option<i64>,
    last_updated_at: i64,
    #[serde(default)]
    bytes_exported: Option<i64>,
}

impl LatestRuns {
    /// Copies these runs.
    pub fn of(runs: Vec<runs::Model>) -> Self {
        Self(runs.into_iter().map(LatestRun::of).collect())
    }

    /// Runs of an export.
    pub fn runs(self, batch_export_id: Uuid) -> Vec<runs::Model> {
        let runs = self.0.into_iter();
        runs.map(|run| run.model(batch_export_id)).collect()
    }
}

impl LatestRun {
    fn of(run: runs::Model) -> Self {
        Self {
            id: run.id,
            ordinal: run.ordinal,
            backfill_id: run.backfill_id,
            status: run.status,
            data_interval_start: run.data_interval_start.map(|at| at.0),
            data_interval_end: run.data_interval_end.0,
            records_completed: run.records_completed,
            records_total_count: run.records_total_count,
            cursor: run.cursor,
            latest_error: run.latest_error,
            created_at: run.created_at.0,
            finished_at: run.finished_at.map(|at| at.0),
            last_updated_at: run.last_updated_at.0,
            bytes_exported: run.bytes_exported,
        }
    }

    fn model(self, batch_export_id: Uuid) -> runs::Model {
        runs::Model {
            batch_export_id,
            id: self.id,
            ordinal: self.ordinal,
            backfill_id: self.backfill_id,
            status: self.status,
            data_interval_start: self.data_interval_start.map(UtcTime),
            data_interval_end: UtcTime(self.data_interval_end),
            records_completed: self.records_completed,
            records_total_count: self.records_total_count,
            cursor: self.cursor,
            latest_error: self.latest_error,
            created_at: UtcTime(self.created_at),
            finished_at: self.finished_at.map(UtcTime),
            last_updated_at: UtcTime(self.last_updated_at),
            bytes_exported: self.bytes_exported,
            // Only the process that makes runs needs the claim, and reads it from the run's row.
            claim: None,
            claim_lapses_at: 0,
            next_try_at: 0,
            failures_count: 0,
        }
    }
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
