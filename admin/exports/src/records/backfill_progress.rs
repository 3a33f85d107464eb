//! Progress of backfills: how many runs they take, how many have ended, and their end. As with
//! runs, no change here has an entry in the activity log.

use super::empty_backfills::drop_unused_settings;
use super::locks::lock_open_backfill;
use super::{Backfills, ExportLogs};
use millrace_catalog::ChangeError;
use millrace_catalog::entities::batch_export_backfills as backfills;
use millrace_catalog::entities::batch_export_logs::LogLevel;
use millrace_catalog::entities::batch_export_runs::{self as runs, RunStatus};
use millrace_catalog::transaction::{Abort, locked};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter,
};

impl Backfills<'_> {
    /// Sets how many runs a backfill takes; a backfill of none is complete at once. `false`: it has
    /// ended, or is gone, or another process has set the number. Who counts when there are runs
    /// already counts the rest only.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn plan(self, id: Uuid, total_runs: i64) -> Result<bool, ChangeError> {
        let transaction = self.0.begin_bounded().await?;
        let planned = async {
            let Some(mut backfill) = lock_uncounted_backfill(&transaction, id).await? else {
                return Ok(false);
            };
            backfill.total_runs = Some(total_runs);
            backfill.status = RunStatus::Running;
            self.save_counts(&transaction, backfill).await?;
            Ok(true)
        };
        let planned = planned.await;
        self.0.finish(transaction, planned).await
    }

    /// Completes a backfill that has no runs, with the reason. `false`: it has ended, or is gone,
    /// or another process has found that it takes some.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn end_empty(self, id: Uuid, why: &str) -> Result<bool, ChangeError> {
        let transaction = self.0.begin_bounded().await?;
        let ended = async {
            let Some(backfill) = lock_uncounted_backfill(&transaction, id).await? else {
                return Ok(false);
            };
            self.complete_empty(&transaction, backfill, why).await?;
            Ok(true)
        };
        let ended = ended.await;
        self.0.finish(transaction, ended).await
    }

    /// Takes the runs that a backfill has for all of them, as nothing is left of the others' rows;
    /// one without runs completes with this reason. `false`: it has ended, or is gone.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn end_early(self, id: Uuid, why: &str) -> Result<bool, ChangeError> {
        let transaction = self.0.begin_bounded().await?;
        let ended = async {
            let Some(mut backfill) = lock_open_backfill(&transaction, id).await? else {
                return Ok(false);
            };
            let open = runs::Entity::find()
                .filter(runs::Column::BackfillId.eq(id))
                .filter(runs::Column::Status.is_in(RunStatus::OPEN));
            let open = i64::try_from(open.count(&transaction).await?).unwrap_or(i64::MAX);
            // Some that ended may have been pruned.
            match backfill.finished_runs.saturating_add(open) {
                0 => self.complete_empty(&transaction, backfill, why).await?,
                made => {
                    backfill.total_runs = Some(made);
                    self.save_counts(&transaction, backfill).await?;
                }
            }
            Ok(true)
        };
        let ended = ended.await;
        self.0.finish(transaction, ended).await
    }

    /// Completes a backfill that has no runs, with the reason.
    async fn complete_empty(
        self,
        within: &DatabaseTransaction,
        mut backfill: backfills::Model,
        why: &str,
    ) -> Result<(), Abort> {
        backfill.total_runs = Some(0);
        backfill.message = Some(why.to_owned());
        backfill.asked_for = None;
        self.log_empty(within, &backfill, why).await?;
        self.save_counts(within, backfill).await
    }

    /// Fails a backfill that cannot be planned. `false`: it has ended, or is gone.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn fail(self, id: Uuid, why: &str) -> Result<bool, ChangeError> {
        let transaction = self.0.begin_bounded().await?;
        let failed = async {
            let Some(mut backfill) = lock_open_backfill(&transaction, id).await? else {
                return Ok(false);
            };
            let now = self.0.now();
            backfill.status = RunStatus::Failed;
            backfill.finished_at = Some(now);
            backfill.last_updated_at = now;
            backfill.message = Some(why.to_owned());
            drop_unused_settings(&transaction, &mut backfill).await?;
            let export_id = backfill.batch_export_id;
            let row = backfill.into_active_model().reset_all();
            row.update(&transaction).await?;
            let message = format!("Backfill {id} was given up. {why}");
            ExportLogs::new(self.0)
                .log(&transaction, export_id, None, LogLevel::Error, &message)
                .await?;
            Ok(true)
        };
        let failed = failed.await;
        self.0.finish(transaction, failed).await
    }

    /// Counts an ended run of a backfill; the last one ends the backfill. A backfill that has ended
    /// has counted all of its runs.
    pub(super) async fn run_ended(
        self,
        within: &DatabaseTransaction,
        id: Uuid,
    ) -> Result<(), Abort> {
        let query = locked(within, backfills::Entity::find_by_id(id));
        let open = query.one(within).await?.filter(|it| it.status.is_open());
        if let Some(mut backfill) = open {
            backfill.finished_runs += 1;
            self.save_counts(within, backfill).await?;
        }
        Ok(())
    }

    /// Uncounts a run that had ended and starts again. A backfill that ended before all of its runs
    /// were made stays as it is: only that run was asked for.
    pub(super) async fn reopen(self, within: &DatabaseTransaction, id: Uuid) -> Result<(), Abort> {
        let query = locked(within, backfills::Entity::find_by_id(id));
        let goes_on = |it: &backfills::Model| {
            let has_all = it.total_runs.is_some_and(|all| it.finished_runs >= all);
            it.status.is_open() || (has_all && it.status != RunStatus::Cancelled)
        };
        if let Some(mut backfill) = query.one(within).await?.filter(goes_on) {
            backfill.finished_runs = (backfill.finished_runs - 1).max(0);
            backfill.status = RunStatus::Running;
            backfill.finished_at = None;
            self.save_counts(within, backfill).await?;
        }
        Ok(())
    }

    /// Writes new counts. When all runs are done the backfill is complete, or failed if one of them
    /// did.
    async fn save_counts(
        self,
        within: &DatabaseTransaction,
        mut backfill: backfills::Model,
    ) -> Result<(), Abort> {
        let now = self.0.now();
        let finished = backfill.finished_runs;
        let is_done = backfill.total_runs.is_some_and(|total| finished >= total);
        if is_done && backfill.status.is_open() {
            backfill.status = end_of(within, backfill.id).await?;
            backfill.finished_at = Some(now);
        }
        backfill.last_updated_at = now;
        let row = backfill.into_active_model().reset_all();
        row.update(within).await?;
        Ok(())
    }
}

/// Final status of a backfill whose runs have all ended.
async fn end_of(within: &DatabaseTransaction, id: Uuid) -> Result<RunStatus, DbErr> {
    let failed = runs::Entity::find()
        .filter(runs::Column::BackfillId.eq(id))
        .filter(runs::Column::Status.is_in([RunStatus::Failed, RunStatus::TimedOut]));
    Ok(match failed.one(within).await? {
        Some(_) => RunStatus::Failed,
        None => RunStatus::Completed,
    })
}

/// Locks a backfill that has not ended, and of which it is not known how many runs it takes.
async fn lock_uncounted_backfill(
    within: &DatabaseTransaction,
    id: Uuid,
) -> Result<Option<backfills::Model>, DbErr> {
    let open = lock_open_backfill(within, id).await?;
    Ok(open.filter(|backfill| backfill.total_runs.is_none()))
}
