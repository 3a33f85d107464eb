//! Records of runs: the progress and the end of each try, and what follows for its export.

use super::backfill_snapshot::unknown_settings;
use super::create_runs::RunProgress;
use super::latest::keep_latest_runs;
use super::locks::lock_export;
use super::logs::beginning;
use super::operator_wait::record_wait;
use super::pause::mark_paused;
use super::{Backfills, BatchExports, ExportLogs, ExportRuns};
use millrace_catalog::database_clock::{database_now, micros};
use millrace_catalog::entities::batch_export_logs::LogLevel;
use millrace_catalog::entities::batch_export_runs::{self as runs, RunStatus};
use millrace_catalog::entities::{batch_export_backfills as backfills, batch_exports as exports};
use millrace_catalog::transaction::{Abort, locked};
use millrace_catalog::{Actor, CatalogError, ChangeError, UtcTime};
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, Condition, DatabaseTransaction, DbErr, EntityTrait,
    IntoActiveModel, Iterable, QueryFilter, QueryOrder, QuerySelect,
};
use std::time::Duration;

/// Failed runs in a row that pause an export.
pub(super) const FAILED_RUNS_MAX: u64 = 10;

/// Outcome of recording a run's progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// The progress was kept.
    Kept,
    /// The progress was kept, and the export was paused with it, after too many failures.
    Paused,
    /// The progress was kept, and its export has waited for the server's operator for so long that
    /// its administrators are to be told; once until the export runs again.
    WaitsLong,
    /// The run has ended, is claimed by another process, or is gone: stop making it.
    Lost,
}

impl ExportRuns<'_> {
    /// Records the progress of a run, under its claim, and extends the claim. A status that ends
    /// the run ends the claim; [`RunStatus::FailedRetryable`] gives it back until `again_after`.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn record(
        self,
        id: Uuid,
        claim: Option<Uuid>,
        progress: RunProgress,
        again_after: Duration,
    ) -> Result<RunOutcome, ChangeError> {
        let transaction = if progress.status == RunStatus::Running {
            self.0.begin_bounded().await?
        } else {
            // The end of a try: if the claim lapsed before it is recorded, the run would be made
            // again.
            self.0.begin_queued().await?
        };
        let recorded = async {
            let query = runs::Entity::find_by_id(id);
            let Some(seen) = query.clone().one(&transaction).await? else {
                return Ok(RunOutcome::Lost);
            };
            let export = lock_export(&transaction, seen.batch_export_id).await?;
            let run = locked(&transaction, query).one(&transaction).await?;
            let run = run.filter(|run| run.status.is_open() && run.claim == claim);
            let (Some(run), Some(mut export)) = (run, export) else {
                return Ok(RunOutcome::Lost);
            };
            let now = self.0.now();
            let wait = record_wait(&transaction, &mut export, &progress, now).await?;
            let mut outcome = match wait.is_to_be_told {
                true => RunOutcome::WaitsLong,
                false => RunOutcome::Kept,
            };
            let until = database_now(&transaction).await? + micros(wait.pause.max(again_after));
            let run = after(run, progress, until, now);
            let export_id = export.id;
            let row = run.clone().into_active_model().reset_all();
            row.update(&transaction).await?;
            if !wait.pause.is_zero() {
                // A wait of one run is a wait of all of them.
                runs::Entity::update_many()
                    .col_expr(runs::Column::NextTryAt, Expr::value(until))
                    .filter(runs::Column::BatchExportId.eq(export_id))
                    .filter(runs::Column::Status.is_in(RunStatus::OPEN))
                    .filter(runs::Column::NextTryAt.lt(until))
                    .exec(&transaction)
                    .await?;
            }
            if let Some(backfill_id) = run.backfill_id.filter(|_| !run.status.is_open()) {
                Backfills::new(self.0)
                    .run_ended(&transaction, backfill_id)
                    .await?;
            }
            if has_failed(&run) && self.pause_after_failures(&transaction, export, now).await? {
                outcome = RunOutcome::Paused;
            }
            keep_latest_runs(&transaction, export_id).await?;
            Ok(outcome)
        };
        let recorded = recorded.await;
        self.0.finish(transaction, recorded).await
    }

    /// Outcome of a record whose answer was lost, of a status other than [`RunStatus::Running`]:
    /// [`RunOutcome::Lost`] if it was not kept, or if its run was changed or claimed since.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn recorded(self, id: Uuid, status: RunStatus) -> Result<RunOutcome, CatalogError> {
        let read = async {
            let db = self.0.reader();
            let run = runs::Entity::find_by_id(id).one(db).await?;
            let run = run.filter(|run| run.status == status && run.claim.is_none());
            let Some(run) = run else {
                return Ok(RunOutcome::Lost);
            };
            let export = exports::Entity::find_by_id(run.batch_export_id);
            let export = export.one(db).await?;
            Ok(export.map_or(RunOutcome::Lost, |export| outcome_of(&run, &export)))
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Pauses an export whose last runs, since it was resumed, all failed, those of backfills
    /// included. Those of backfills that another version was asked for are not: neither the export
    /// nor its destination is at fault.
    async fn pause_after_failures(
        self,
        within: &DatabaseTransaction,
        before: exports::Model,
        now: UtcTime,
    ) -> Result<bool, Abort> {
        if before.paused {
            return Ok(false);
        }
        let newest = newest_runs(within, &before).await?;
        let is_enough = u64::try_from(newest.len()).is_ok_and(|count| count >= FAILED_RUNS_MAX);
        if !(is_enough && newest.iter().all(has_failed)) {
            return Ok(false);
        }
        let mut after = before.clone();
        mark_paused(&mut after, now);
        let system = Actor::system();
        BatchExports::new(self.0)
            .save(within, &system, &before, after)
            .await?;
        let open = backfills::Entity::find()
            .filter(backfills::Column::BatchExportId.eq(before.id))
            .filter(backfills::Column::Status.is_in(RunStatus::OPEN));
        for backfill in locked(within, open).all(within).await? {
            Backfills::new(self.0)
                .cancel_within(within, &system, &before, backfill)
                .await?;
        }
        let message = format!("The export is paused: {FAILED_RUNS_MAX} runs in a row failed.");
        ExportLogs::new(self.0)
            .log(within, before.id, None, LogLevel::Error, &message)
            .await?;
        Ok(true)
    }
}

fn has_failed(run: &runs::Model) -> bool {
    matches!(run.status, RunStatus::Failed | RunStatus::TimedOut)
}

/// Outcome of the last record of a run, from what it left: all that a record changes has the same
/// time.
fn outcome_of(run: &runs::Model, export: &exports::Model) -> RunOutcome {
    let recorded_at = Some(run.last_updated_at);
    let waits = run.status == RunStatus::FailedRetryable;
    if has_failed(run) && export.paused && export.paused_since == recorded_at {
        RunOutcome::Paused
    } else if waits && export.wait_told_at == recorded_at {
        RunOutcome::WaitsLong
    } else {
        RunOutcome::Kept
    }
}

/// Applies a record to a run; `until` is when its claim lapses, or it may be tried again.
fn after(mut run: runs::Model, progress: RunProgress, until: i64, now: UtcTime) -> runs::Model {
    run.status = progress.status;
    run.records_completed = progress.records_completed;
    run.records_total_count = progress.records_total_count;
    run.bytes_exported = progress.bytes_exported;
    run.cursor = progress.cursor;
    run.latest_error = progress.latest_error.map(beginning);
    run.last_updated_at = now;
    run.claim_lapses_at = until;
    if run.status != RunStatus::Running {
        run.claim = None;
        run.claim_lapses_at = 0;
    }
    if run.status == RunStatus::FailedRetryable {
        // A run that waits for the operator has not failed: tries count failures.
        run.failures_count += i32::from(!progress.waits);
        run.next_try_at = until;
    }
    if !run.status.is_open() {
        run.finished_at = Some(now);
    }
    run
}

/// Newest runs of an export that have ended since it was resumed, but for those of backfills with
/// settings that this version does not know.
async fn newest_runs(
    within: &DatabaseTransaction,
    export: &exports::Model,
) -> Result<Vec<runs::Model>, DbErr> {
    // The resume may have come with a repair of what failed before.
    let since = export.resumed_at.unwrap_or(UtcTime(i64::MIN));
    let mut unknown: Vec<Uuid> = Vec::new();
    loop {
        let is_known = Condition::any()
            .add(runs::Column::BackfillId.is_null())
            .add(runs::Column::BackfillId.is_not_in(unknown.iter().copied()));
        let newest = runs::Entity::find()
            .filter(runs::Column::BatchExportId.eq(export.id))
            .filter(runs::Column::FinishedAt.gte(since))
            .filter(runs::Column::Status.is_in(RunStatus::iter()))
            .filter(is_known)
            .order_by_desc(runs::Column::FinishedAt)
            .limit(FAILED_RUNS_MAX)
            .all(within)
            .await?;
        let asked = newest.iter().filter_map(|run| run.backfill_id);
        let found = backfills::Entity::find()
            .filter(backfills::Column::Id.is_in(asked))
            .filter(backfills::Column::Status.is_in(RunStatus::iter()))
            .all(within)
            .await?;
        let found = found.iter().filter(|it| unknown_settings(it).is_some());
        let before = unknown.len();
        unknown.extend(found.map(|backfill| backfill.id));
        if unknown.len() == before {
            return Ok(newest);
        }
    }
}
