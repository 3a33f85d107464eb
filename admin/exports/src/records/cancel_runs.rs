//! Cancellation of runs that have not ended.
//!
//! A run that is cancelled under its claim holds its export for longer: the process that makes it
//! notices by the time at which the claim would have lapsed, and takes back what it delivered then,
//! under the names that the next run of the window has.

use super::latest::keep_latest_runs;
use millrace_catalog::UtcTime;
use millrace_catalog::database_clock::{database_now, micros};
use millrace_catalog::entities::batch_export_runs::{self as runs, RunStatus};
use millrace_catalog::entities::batch_exports as exports;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveEnum, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, QueryFilter, Select,
};
use std::time::Duration;

/// Longest time in which a process takes back what a run delivered that was cancelled.
pub const TAKE_BACK_MAX: Duration = Duration::from_secs(15);

/// Claimed runs of an export.
pub(super) fn claimed_run(export_id: Uuid, now: i64) -> Select<runs::Entity> {
    runs::Entity::find()
        .filter(runs::Column::BatchExportId.eq(export_id))
        .filter(runs::Column::Status.is_in(RunStatus::OPEN))
        .filter(runs::Column::ClaimLapsesAt.gt(now))
}

/// Cancels those of these runs of an export, which is locked, that have not ended; returns their
/// number.
pub(super) async fn cancel_open_runs(
    within: &DatabaseTransaction,
    export_id: Uuid,
    cancelled: Expr,
    now: UtcTime,
) -> Result<u64, DbErr> {
    hold_for_take_back(within, export_id, cancelled.clone()).await?;
    let status = RunStatus::Cancelled.to_value();
    let ended = runs::Entity::update_many()
        .col_expr(runs::Column::Status, Expr::value(status))
        .col_expr(runs::Column::FinishedAt, Expr::value(now))
        .col_expr(runs::Column::LastUpdatedAt, Expr::value(now))
        // A retry of the run is not made under a claim of before.
        .col_expr(runs::Column::Claim, Expr::value(Option::<Uuid>::None))
        .filter(runs::Column::BatchExportId.eq(export_id))
        .filter(cancelled)
        .filter(runs::Column::Status.is_in(RunStatus::OPEN))
        .exec(within)
        .await?;
    keep_latest_runs(within, export_id).await?;
    Ok(ended.rows_affected)
}

/// Holds an export, which is locked, if one of these runs is claimed; to be called before they are
/// cancelled.
pub(super) async fn hold_for_take_back(
    within: &DatabaseTransaction,
    export_id: Uuid,
    cancelled: Expr,
) -> Result<(), DbErr> {
    let now = database_now(within).await?;
    let claimed = claimed_run(export_id, now).filter(cancelled);
    let Some(claimed) = claimed.one(within).await? else {
        return Ok(());
    };
    let until = claimed
        .claim_lapses_at
        .saturating_add(micros(TAKE_BACK_MAX));
    exports::Entity::update_many()
        .col_expr(exports::Column::BusyUntil, Expr::value(until))
        .filter(exports::Column::Id.eq(export_id))
        .filter(exports::Column::BusyUntil.lt(until))
        .exec(within)
        .await
        .map(drop)
}
