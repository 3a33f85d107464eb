//! Backfills that ended without runs, which cost nobody anything to make: one whose range has no
//! window yet, or that is cancelled at once, counts for no limit of open ones. So they keep no
//! settings, and of many the oldest is deleted.

use millrace_catalog::entities::{batch_export_backfills as backfills, batch_export_runs as runs};
use millrace_catalog::limits::EMPTY_BACKFILLS_MAX;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, SimpleExpr};
use sea_orm::{
    ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect,
};

/// Condition for backfills without runs.
pub(super) fn has_no_runs() -> SimpleExpr {
    Expr::cust(
        "NOT EXISTS (SELECT 1 FROM batch_export_runs \
         WHERE batch_export_runs.backfill_id = batch_export_backfills.id)",
    )
}

/// Takes the settings from a backfill that has ended, if it has no runs: nothing is exported by
/// them any more.
pub(super) async fn drop_unused_settings(
    within: &DatabaseTransaction,
    backfill: &mut backfills::Model,
) -> Result<(), DbErr> {
    let made = runs::Entity::find().filter(runs::Column::BackfillId.eq(backfill.id));
    if made.one(within).await?.is_none() {
        backfill.asked_for = None;
    }
    Ok(())
}

/// Deletes the oldest backfill of an export, which is locked, that has ended without runs, if there
/// are the most of them. One is enough, as each was made once; and a single row cannot deadlock
/// with `retention`, which deletes many.
pub(super) async fn delete_oldest(
    within: &DatabaseTransaction,
    export_id: Uuid,
) -> Result<(), DbErr> {
    let empty = backfills::Entity::find()
        .select_only()
        .column(backfills::Column::Id)
        .filter(backfills::Column::BatchExportId.eq(export_id))
        .filter(backfills::Column::FinishedAt.is_not_null())
        .filter(has_no_runs());
    if empty.clone().count(within).await? < EMPTY_BACKFILLS_MAX {
        return Ok(());
    }
    let oldest = empty
        .order_by_asc(backfills::Column::CreatedAt)
        .order_by_asc(backfills::Column::Id)
        .into_tuple::<Uuid>()
        .one(within)
        .await?;
    if let Some(oldest) = oldest {
        backfills::Entity::delete_by_id(oldest).exec(within).await?;
    }
    Ok(())
}
