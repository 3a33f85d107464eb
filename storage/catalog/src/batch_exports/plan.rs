//! Which windows come next.
//!
//! Windows by the clock follow one another without a gap: each begins where the last one ended,
//! also when the interval has changed since. While an export is paused, those that end are passed
//! over; a backfill makes up for them. A backfill's windows come from whoever knows which of them
//! have rows.

use super::making::NewRun;
use super::{ExportInterval, latest::keep_latest_runs, making::lock_export};
use crate::catalog::Catalog;
use crate::entities::batch_export_backfills as backfills;
use crate::entities::batch_export_runs::{self as runs, RunStatus};
use crate::entities::batch_exports as exports;
use crate::error::{CatalogError, ChangeError};
use crate::time::UtcTime;
use crate::transaction::Abort;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, Condition, DatabaseTransaction, DbErr, EntityTrait,
    IntoActiveModel, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, Select,
};
use std::time::Duration;

/// The most windows that are planned of one export at a time.
const WINDOWS_MAX: usize = 100;
/// The most exports that are looked at at a time.
const EXPORTS_MAX: u64 = 100;

/// A backfill whose runs are not all made yet.
#[derive(Clone, Debug)]
pub struct OpenBackfill {
    /// Itself.
    pub backfill: backfills::Model,
    /// Of which export.
    pub export: exports::Model,
    /// How many of its runs have not ended.
    pub open_runs: u64,
    /// The end of the last window that it has a run of.
    pub windows_until: Option<UtcTime>,
}

impl OpenBackfill {
    /// Whether all of its runs are made. Those behind one that is tried again may be forgotten by
    /// now, and are not to be made once more.
    #[must_use]
    pub fn has_all_runs(&self) -> bool {
        let open = i64::try_from(self.open_runs).unwrap_or(i64::MAX);
        let made = self.backfill.finished_runs.saturating_add(open);
        self.backfill.total_runs.is_some_and(|total| made >= total)
    }
}

impl Catalog {
    /// Makes runs of all windows by the clock that ended at `until` or before, whose rows are all
    /// stored by then; answers how many.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn plan_export_windows(&self, until: UtcTime) -> Result<usize, ChangeError> {
        let due = due(Expr::value(until))
            .order_by_asc(exports::Column::NextWindowEnd)
            .limit(EXPORTS_MAX)
            .select_only()
            .column(exports::Column::Id)
            .into_tuple()
            .all(&self.db)
            .await;
        let mut planned = 0;
        for export_id in due.map_err(|error| self.error(&error))? {
            let transaction = self.begin().await?;
            let made = self.plan_windows(&transaction, export_id, until).await;
            planned += self.finish(transaction, made).await?;
        }
        Ok(planned)
    }

    async fn plan_windows(
        &self,
        within: &DatabaseTransaction,
        export_id: Uuid,
        until: UtcTime,
    ) -> Result<usize, Abort> {
        let Some(mut export) = lock_export(within, export_id).await? else {
            return Ok(0);
        };
        let windows = due_windows(&mut export, until);
        for (start, end) in &windows {
            let new = NewRun {
                backfill_id: None,
                data_interval_start: Some(*start),
                data_interval_end: *end,
            };
            self.insert_run(within, &mut export, new).await?;
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

    /// Backfills that have not ended, oldest first.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn open_export_backfills(&self) -> Result<Vec<OpenBackfill>, CatalogError> {
        let read = async {
            let open = open_backfills()
                .order_by_asc(backfills::Column::CreatedAt)
                .limit(EXPORTS_MAX)
                .all(&self.db)
                .await?;
            let mut found = Vec::with_capacity(open.len());
            for backfill in open {
                let export = exports::Entity::find_by_id(backfill.batch_export_id);
                let Some(export) = export.one(&self.db).await? else {
                    continue;
                };
                let own = runs::Entity::find().filter(runs::Column::BackfillId.eq(backfill.id));
                let open = own
                    .clone()
                    .filter(runs::Column::Status.is_in(RunStatus::OPEN));
                let last = own.order_by_desc(runs::Column::DataIntervalEnd);
                let last = last.one(&self.db).await?;
                found.push(OpenBackfill {
                    export,
                    open_runs: open.count(&self.db).await?,
                    windows_until: last.map(|run| run.data_interval_end),
                    backfill,
                });
            }
            Ok(found)
        };
        read.await.map_err(|error: DbErr| self.error(&error))
    }
}

impl Catalog {
    /// How many runs a backfill has.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn count_backfill_runs(&self, id: Uuid) -> Result<i64, CatalogError> {
        let own = runs::Entity::find().filter(runs::Column::BackfillId.eq(id));
        let count = own.count(&self.db).await;
        let count = count.map_err(|error| self.error(&error))?;
        Ok(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// How long ago the oldest window by the clock ended that is not delivered, of all exports that
    /// are not paused; runs that were given up do not count.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn exports_lag(&self) -> Result<Duration, CatalogError> {
        let read = async {
            let next = exports::Entity::find()
                .select_only()
                .column_as(exports::Column::NextWindowEnd.min(), "oldest")
                .filter(exports::Column::Paused.eq(false))
                .into_tuple::<Option<i64>>()
                .one(&self.db)
                .await?;
            let open = runs::Entity::find()
                .select_only()
                .column_as(runs::Column::DataIntervalEnd.min(), "oldest")
                .filter(runs::Column::Status.is_in(RunStatus::OPEN))
                .filter(runs::Column::BackfillId.is_null())
                .into_tuple::<Option<i64>>()
                .one(&self.db)
                .await?;
            let oldest = [next, open].into_iter().flatten().flatten().min();
            let lag = self.now().0.saturating_sub(oldest.unwrap_or(i64::MAX));
            Ok(Duration::from_micros(u64::try_from(lag).unwrap_or(0)))
        };
        read.await.map_err(|error: DbErr| self.error(&error))
    }
}

/// Exports with a window that ended by then, and those of which that is not known.
pub(super) fn due(until: Expr) -> Select<exports::Entity> {
    let ended = Condition::any()
        .add(exports::Column::NextWindowEnd.is_null())
        .add(Expr::col(exports::Column::NextWindowEnd).lte(until));
    let before_pause =
        Expr::col(exports::Column::NextWindowEnd).lte(Expr::col(exports::Column::LastPausedAt));
    let triggers = Condition::any()
        .add(exports::Column::Paused.eq(false))
        .add(before_pause);
    exports::Entity::find().filter(triggers).filter(ended)
}

/// Backfills that have not ended.
pub(super) fn open_backfills() -> Select<backfills::Entity> {
    backfills::Entity::find().filter(backfills::Column::Status.is_in(RunStatus::OPEN))
}

/// Takes the windows out of an export that ended by then, and are triggered while it may run.
fn due_windows(export: &mut exports::Model, until: UtcTime) -> Vec<(UtcTime, UtcTime)> {
    // The text was an interval when it was kept.
    let interval: ExportInterval = export.interval.parse().unwrap_or(ExportInterval::Hour);
    let mut start = begun(export, interval);
    let until = match export.last_paused_at {
        Some(paused_at) if export.paused => Ord::min(until, paused_at),
        _ => until,
    };
    let mut windows = Vec::new();
    while windows.len() < WINDOWS_MAX {
        let end = interval.window_end(start);
        if end > until {
            break;
        }
        if export.end_at.is_none_or(|last| end <= last) {
            windows.push((start, end));
        }
        start = end;
    }
    export.windows_until = Some(start);
    export.next_window_end = Some(interval.window_end(start));
    windows
}

/// Where the first window by the clock begins: the one in which the export is made, or begins.
pub(super) fn first_window(export: &exports::Model) -> UtcTime {
    // The text was an interval when it was kept.
    let interval: ExportInterval = export.interval.parse().unwrap_or(ExportInterval::Hour);
    let first = export.start_at.unwrap_or(export.created_at);
    interval.window_start(Ord::max(first, export.created_at))
}

/// Where the next window begins.
fn begun(export: &mut exports::Model, interval: ExportInterval) -> UtcTime {
    let first = first_window(export);
    let live_since = *export.live_since.get_or_insert(first);
    let start = export.windows_until.unwrap_or(live_since);
    // An export that begins later than it was first told passes the time until then over.
    let begins = export.start_at.map(|at| interval.window_start(at));
    begins.map_or(start, |begins| Ord::max(begins, start))
}

/// Lets an export that was paused go on: windows that ended meanwhile are passed over.
pub(super) fn pass_over(export: &mut exports::Model, now: UtcTime) {
    let interval: ExportInterval = export.interval.parse().unwrap_or(ExportInterval::Hour);
    if let Some(paused_at) = export.last_paused_at {
        let start = begun(export, interval);
        // What ended before the pause and is not planned yet, as nobody planned, stays due.
        let ended_before = interval.window_start(paused_at) > start;
        let next = interval.window_start(now);
        if !ended_before && next > start {
            export.windows_until = Some(next);
        }
    }
    export.next_window_end = None;
}
