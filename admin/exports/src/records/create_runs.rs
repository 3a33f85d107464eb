//! Creation of runs, for the process that makes them. No change here has an entry in the activity
//! log: these rows are its record.

use super::ExportRuns;
use super::latest::keep_latest_runs;
use super::locks::{lock_export, lock_open_backfill};
use millrace_catalog::entities::batch_export_runs::{self as runs, RunStatus};
use millrace_catalog::entities::batch_exports as exports;
use millrace_catalog::transaction::Abort;
use millrace_catalog::{ChangeError, UtcTime};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait,
    IntoActiveModel, QueryFilter,
};

/// Window that is to be exported.
#[derive(Clone, Copy, Debug)]
pub struct NewRun {
    /// Backfill that the run is for; `None`: the run came by the clock.
    pub backfill_id: Option<Uuid>,
    /// Start of the window, inclusive; `None`: from the beginning.
    pub data_interval_start: Option<UtcTime>,
    /// End of the window, exclusive.
    pub data_interval_end: UtcTime,
}

/// Progress of a run; it replaces what was known before.
#[derive(Clone, Debug)]
pub struct RunProgress {
    /// Status of the run.
    pub status: RunStatus,
    /// Rows that arrived.
    pub records_completed: Option<i64>,
    /// Rows that the window has.
    pub records_total_count: Option<i64>,
    /// Bytes that arrived, as they were sent.
    pub bytes_exported: Option<i64>,
    /// Position from which the run goes on after a restart.
    pub cursor: Option<String>,
    /// Latest error.
    pub latest_error: Option<String>,
    /// With [`RunStatus::FailedRetryable`]: the try did not fail, it waits for the server's
    /// operator.
    pub waits: bool,
}

impl ExportRuns<'_> {
    /// Creates a run of a window.
    ///
    /// # Errors
    ///
    /// No such export any more, or any database error.
    pub async fn begin(self, export_id: Uuid, new: NewRun) -> Result<runs::Model, ChangeError> {
        let transaction = self.0.begin_bounded().await?;
        let begun = self.insert_counted(&transaction, export_id, new).await;
        self.0.finish(transaction, begun).await
    }

    /// Creates a run of the next window of a backfill, behind those that it has runs of. `None`:
    /// the backfill has ended or is gone, or another process has created that run.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn begin_of_backfill(
        self,
        backfill_id: Uuid,
        (start, end): (UtcTime, UtcTime),
    ) -> Result<Option<runs::Model>, ChangeError> {
        let transaction = self.0.begin_bounded().await?;
        let begun = async {
            let Some(backfill) = lock_open_backfill(&transaction, backfill_id).await? else {
                return Ok(None);
            };
            let later = runs::Entity::find()
                .filter(runs::Column::BackfillId.eq(backfill_id))
                .filter(runs::Column::DataIntervalEnd.gte(end));
            if later.one(&transaction).await?.is_some() {
                return Ok(None);
            }
            let new = NewRun {
                backfill_id: Some(backfill_id),
                data_interval_start: Some(start),
                data_interval_end: end,
            };
            self.insert_counted(&transaction, backfill.batch_export_id, new)
                .await
                .map(Some)
        };
        let begun = begun.await;
        self.0.finish(transaction, begun).await
    }

    /// Adds a run to an export, and counts it there.
    async fn insert_counted(
        self,
        within: &DatabaseTransaction,
        export_id: Uuid,
        new: NewRun,
    ) -> Result<runs::Model, Abort> {
        let export = lock_export(within, export_id).await?;
        let export = export.ok_or_else(|| ChangeError::not_found("batch export", &export_id))?;
        let (mut export, before) = (export.clone(), export);
        let run = self.insert(within, &mut export, new).await?;
        let mut counted = before.into_active_model();
        counted.runs_count = ActiveValue::Set(export.runs_count);
        counted.update(within).await?;
        keep_latest_runs(within, export_id).await?;
        Ok(run)
    }

    /// Adds a run to an export that is locked, and counts it there.
    pub(super) async fn insert(
        self,
        within: &DatabaseTransaction,
        export: &mut exports::Model,
        new: NewRun,
    ) -> Result<runs::Model, DbErr> {
        export.runs_count += 1;
        let now = self.0.now();
        let run = runs::Model {
            id: Uuid::now_v7(),
            batch_export_id: export.id,
            ordinal: export.runs_count,
            backfill_id: new.backfill_id,
            status: RunStatus::Starting,
            data_interval_start: new.data_interval_start,
            data_interval_end: new.data_interval_end,
            records_completed: None,
            records_total_count: None,
            cursor: None,
            latest_error: None,
            created_at: now,
            finished_at: None,
            last_updated_at: now,
            bytes_exported: None,
            claim: None,
            claim_lapses_at: 0,
            next_try_at: 0,
            failures_count: 0,
        };
        let row = run.into_active_model().reset_all();
        runs::Entity::insert(row).exec_with_returning(within).await
    }
}
