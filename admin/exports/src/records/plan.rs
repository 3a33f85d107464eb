//! Planning: which windows of exports come next.
//!
//! Windows by the clock follow from the export's row (`windows`). A backfill's windows come from a
//! query that finds those with rows (`backfill_round_robin`).

use super::create_runs::NewRun;
use super::latest::keep_latest_runs;
use super::locks::{lock_export, lock_free_export};
use super::unknown_values::is_known;
use super::windows::due_windows;
use super::{ExportPlanner, ExportRuns};
use millrace_catalog::entities::batch_export_runs::{self as runs, RunStatus};
use millrace_catalog::entities::{
    batch_export_backfills as backfills, batch_exports as exports, deleted_batch_exports as deleted,
};
use millrace_catalog::transaction::Abort;
use millrace_catalog::{CatalogError, ChangeError, UtcTime};
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, ExprTrait, Query, SelectStatement};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, Condition, DatabaseTransaction, DbErr, EntityTrait,
    IntoActiveModel, QueryFilter, QueryOrder, QuerySelect, Select,
};
use std::time::Duration;

/// Most exports that are planned at a time, in turns of their organizations.
const EXPORTS_MAX: u64 = 100;

/// Lock errors after which no further export is planned at a time, since each takes seconds. From
/// the first error on, exports whose row is locked are skipped: further ones come of a table that
/// is locked.
const LOCK_ERRORS_MAX: usize = 3;

impl ExportPlanner<'_> {
    /// Creates runs of windows by the clock that ended at `until` or before, whose rows are all
    /// stored by then, of a hundred exports in turns of their organizations; answers how many.
    /// Exports with values that this version does not know are left alone
    /// ([`BatchExports::unknown_values`](crate::BatchExports::unknown_values)).
    ///
    /// # Errors
    ///
    /// The first database error; the other exports are planned all the same, unless three of them
    /// are locked.
    pub async fn plan_windows(self, until: UtcTime) -> Result<usize, ChangeError> {
        let due = in_turns(due(Expr::value(until)))
            .limit(EXPORTS_MAX)
            .into_tuple::<(Uuid, i64)>()
            .all(self.0.reader())
            .await;
        let (mut planned, mut failed, mut lock_errors) = (0, None, 0);
        for (export_id, _) in due.map_err(|error| self.0.error(&error))? {
            let waits = failed.is_none();
            let error = match self.plan_export(export_id, until, waits).await {
                Ok(made) => {
                    planned += made;
                    continue;
                }
                // The interval was changed since the export was found.
                Err(ChangeError::Catalog(CatalogError::WrongInterval { .. })) => continue,
                Err(error) => error,
            };
            if matches!(error, ChangeError::Catalog(CatalogError::Conflict { .. })) {
                lock_errors += 1;
            }
            // An export that cannot be planned holds up no other.
            failed = failed.or(Some(error));
            if lock_errors >= LOCK_ERRORS_MAX {
                break;
            }
        }
        failed.map_or(Ok(planned), Err)
    }

    /// Plans an export; one whose row another transaction has locked only if it `waits`.
    async fn plan_export(
        self,
        export_id: Uuid,
        until: UtcTime,
        waits: bool,
    ) -> Result<usize, ChangeError> {
        let transaction = self.0.begin_bounded().await?;
        let made = async {
            let export = if waits {
                lock_export(&transaction, export_id).await?
            } else {
                lock_free_export(&transaction, export_id).await?
            };
            match export {
                Some(export) => self.plan_windows_of(&transaction, export, until).await,
                None => Ok(0),
            }
        };
        let made = made.await;
        self.0.finish(transaction, made).await
    }

    async fn plan_windows_of(
        self,
        within: &DatabaseTransaction,
        mut export: exports::Model,
        until: UtcTime,
    ) -> Result<usize, Abort> {
        let export_id = export.id;
        let windows = due_windows(&mut export, until)?;
        for (start, end) in &windows {
            let new = NewRun {
                backfill_id: None,
                data_interval_start: Some(*start),
                data_interval_end: *end,
            };
            ExportRuns::new(self.0)
                .insert(within, &mut export, new)
                .await?;
        }
        export
            .into_active_model()
            .reset_all()
            .update(within)
            .await?;
        if !windows.is_empty() {
            keep_latest_runs(within, export_id).await?;
        }
        Ok(windows.len())
    }
}

impl ExportPlanner<'_> {
    /// Age of the end of the oldest window by the clock that is not delivered, of all exports that
    /// are not paused. Runs that were given up do not count.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn lag(self) -> Result<Duration, CatalogError> {
        let read = async {
            let next = exports::Entity::find()
                .select_only()
                .column_as(exports::Column::NextWindowEnd.min(), "oldest")
                .filter(exports::Column::Paused.eq(false))
                .into_tuple::<Option<i64>>()
                .one(self.0.reader())
                .await?;
            let open = runs::Entity::find()
                .select_only()
                .column_as(runs::Column::DataIntervalEnd.min(), "oldest")
                .filter(runs::Column::Status.is_in(RunStatus::OPEN))
                .filter(runs::Column::BackfillId.is_null())
                .filter(runs::Column::BatchExportId.not_in_subquery(deleted_exports()))
                .into_tuple::<Option<i64>>()
                .one(self.0.reader())
                .await?;
            let oldest = [next, open].into_iter().flatten().flatten().min();
            let lag = self.0.now().0.saturating_sub(oldest.unwrap_or(i64::MAX));
            Ok(Duration::from_micros(u64::try_from(lag).unwrap_or(0)))
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }
}

/// Exports with a window that ended by then, and exports whose next window is not known; without
/// those that nothing can be planned of.
pub(super) fn due(until: Expr) -> Select<exports::Entity> {
    let ended = Condition::any()
        .add(exports::Column::NextWindowEnd.is_null())
        .add(Expr::col(exports::Column::NextWindowEnd).lte(until));
    let before_pause =
        Expr::col(exports::Column::NextWindowEnd).lte(Expr::col(exports::Column::PausedSince));
    let triggers = Condition::any()
        .add(exports::Column::Paused.eq(false))
        .add(exports::Column::NextWindowEnd.is_null())
        .add(before_pause);
    exports::Entity::find()
        .filter(triggers)
        .filter(ended)
        .filter(is_known())
}

/// Orders due exports by the turns of their organizations, each with the number of its turn: the
/// first export of every organization, then the second of each. However many exports of one
/// organization are due, and since when, another's waits for one of them.
///
/// Of one organization, exports whose next window is not known come first, and then those that are
/// due the longest.
fn in_turns(due: Select<exports::Entity>) -> Select<exports::Entity> {
    let turn = Expr::cust(
        "ROW_NUMBER() OVER (PARTITION BY organization_id ORDER BY COALESCE(next_window_end, 0), id)",
    );
    due.select_only()
        .column(exports::Column::Id)
        .expr_as(turn, "turn")
        .order_by_asc(Expr::col("turn"))
        .order_by_asc(exports::Column::NextWindowEnd)
        .order_by_asc(exports::Column::Id)
}

/// Backfills that have not ended. The time says the same as the status, and is what the index
/// knows.
pub(super) fn open_backfills() -> Select<backfills::Entity> {
    backfills::Entity::find()
        .filter(backfills::Column::FinishedAt.is_null())
        .filter(backfills::Column::Status.is_in(RunStatus::OPEN))
}

/// Ids of exports that are gone while some of their rows are still there (`cleanup`).
pub(super) fn deleted_exports() -> SelectStatement {
    let mut ids = Query::select();
    ids.column(deleted::Column::BatchExportId)
        .from(deleted::Entity);
    ids
}
