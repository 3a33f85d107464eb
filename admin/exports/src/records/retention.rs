//! Retention: deletes runs, log lines and backfills that ended long ago. An export every five
//! minutes has 105 000 runs a year, and a line or two of each.
//!
//! Deletion is done in pieces, so that other writers never wait long for the database. However old
//! they are, these runs stay, as they are still needed:
//!
//! - runs that have not ended, and those of a backfill that has not;
//! - the newest runs of each export: they are answered with it, and by them an export is paused
//!   that only fails;
//! - the last run of each export that completed.

use super::ExportPlanner;
use super::empty_backfills::has_no_runs;
use super::latest::LATEST_RUNS;
use super::record_runs::FAILED_RUNS_MAX;
use millrace_catalog::database_clock::micros;
use millrace_catalog::entities::{
    batch_export_backfills as backfills, batch_export_logs as logs, batch_export_runs as runs,
};
use millrace_catalog::{CatalogError, UtcTime};
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ColumnTrait, Condition, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
};
use std::time::Duration;

/// Newest runs of an export that stay.
const NEWEST_RUNS: u64 = if FAILED_RUNS_MAX > LATEST_RUNS {
    FAILED_RUNS_MAX
} else {
    LATEST_RUNS
};

/// Position of a run among all, in the order in which they ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunCursor {
    finished_at: UtcTime,
    id: Uuid,
}

/// Result of pruning one piece of the runs that ended long ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrunedRuns {
    /// Number of runs that were deleted.
    pub count: u64,
    /// Position of the last run that was examined, where the next piece begins; `None`: this was
    /// the last piece.
    pub next: Option<RunCursor>,
}

impl ExportPlanner<'_> {
    /// Deletes runs that ended longer ago than `kept`, with their lines, save those that stay.
    /// Examines `limit` of them, behind `from`.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn prune_runs(
        self,
        kept: Duration,
        from: Option<RunCursor>,
        limit: u64,
    ) -> Result<PrunedRuns, CatalogError> {
        let until = self.ago(kept);
        let pruned = async {
            let seen = ended(until, from, limit).all(self.0.reader()).await?;
            let last = seen.last().map(|(id, finished_at)| RunCursor {
                finished_at: *finished_at,
                id: *id,
            });
            let is_full = u64::try_from(seen.len()).is_ok_and(|count| count >= limit);
            let ids: Vec<Uuid> = seen.into_iter().map(|(id, _)| id).collect();
            if ids.is_empty() {
                return Ok(PrunedRuns {
                    count: 0,
                    next: None,
                });
            }
            let gone = runs::Entity::delete_many()
                .filter(runs::Column::Id.is_in(ids))
                // A run that was started again since it was read has not ended.
                .filter(runs::Column::FinishedAt.lt(until))
                .filter(unneeded_runs())
                .exec(self.0.writer())
                .await?;
            Ok(PrunedRuns {
                count: gone.rows_affected,
                next: last.filter(|_| is_full),
            })
        };
        pruned.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Deletes log lines that are older than `kept`, `limit` at most; answers how many.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn prune_logs(self, kept: Duration, limit: u64) -> Result<u64, CatalogError> {
        let oldest = logs::Entity::find()
            .select_only()
            .column(logs::Column::Id)
            .filter(logs::Column::LoggedAt.lt(self.ago(kept)))
            .order_by_asc(logs::Column::LoggedAt)
            .limit(limit)
            .into_query();
        let gone = logs::Entity::delete_many()
            .filter(logs::Column::Id.in_subquery(oldest))
            .exec(self.0.writer())
            .await;
        gone.map(|gone| gone.rows_affected)
            .map_err(|error| self.0.error(&error))
    }

    /// Deletes backfills that ended longer ago than `kept` and have no runs any more, `limit` at
    /// the most; answers how many.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn prune_backfills(self, kept: Duration, limit: u64) -> Result<u64, CatalogError> {
        let until = self.ago(kept);
        let empty = backfills::Entity::find()
            .select_only()
            .column(backfills::Column::Id)
            .filter(backfills::Column::FinishedAt.lt(until))
            .filter(has_no_runs())
            .limit(limit)
            .into_query();
        let gone = backfills::Entity::delete_many()
            .filter(backfills::Column::Id.in_subquery(empty))
            .filter(backfills::Column::FinishedAt.lt(until))
            .exec(self.0.writer())
            .await;
        gone.map(|gone| gone.rows_affected)
            .map_err(|error| self.0.error(&error))
    }

    /// Time that lies this long before now.
    fn ago(self, time: Duration) -> UtcTime {
        self.0.now().plus_micros(micros(time).saturating_neg())
    }
}

/// Runs that ended before a time, in order.
fn ended(
    until: UtcTime,
    from: Option<RunCursor>,
    limit: u64,
) -> sea_orm::Selector<sea_orm::SelectGetableTuple<(Uuid, UtcTime)>> {
    let mut query = runs::Entity::find()
        .select_only()
        .columns([runs::Column::Id, runs::Column::FinishedAt])
        .filter(runs::Column::FinishedAt.lt(until));
    if let Some(RunCursor { finished_at, id }) = from {
        let same = runs::Column::FinishedAt.eq(finished_at);
        let behind = Condition::any()
            .add(runs::Column::FinishedAt.gt(finished_at))
            .add(same.and(runs::Column::Id.gt(id)));
        query = query
            .filter(runs::Column::FinishedAt.gte(finished_at))
            .filter(behind);
    }
    query
        .order_by_asc(runs::Column::FinishedAt)
        .order_by_asc(runs::Column::Id)
        .limit(limit)
        .into_tuple()
}

/// Condition of runs that are not needed any more, apart from their age.
fn unneeded_runs() -> Condition {
    let not_among_the_newest = Expr::cust(format!(
        "batch_export_runs.ordinal <= (SELECT runs_count - {NEWEST_RUNS} FROM batch_exports \
         WHERE batch_exports.id = batch_export_runs.batch_export_id)"
    ));
    let another_completed_since = Expr::cust(
        "(batch_export_runs.status <> 'Completed' OR EXISTS (SELECT 1 \
         FROM batch_export_runs AS newer \
         WHERE newer.batch_export_id = batch_export_runs.batch_export_id \
         AND newer.ordinal > batch_export_runs.ordinal AND newer.status = 'Completed'))",
    );
    let of_no_open_backfill = Expr::cust(
        "NOT EXISTS (SELECT 1 FROM batch_export_backfills \
         WHERE batch_export_backfills.id = batch_export_runs.backfill_id \
         AND batch_export_backfills.finished_at IS NULL)",
    );
    Condition::all()
        .add(not_among_the_newest)
        .add(another_completed_since)
        .add(of_no_open_backfill)
}
