//! Locks of exports and their backfills, in the order that all transactions keep.

use millrace_catalog::entities::{batch_export_backfills as backfills, batch_exports as exports};
use millrace_catalog::transaction::{locked, locked_if_free};
use sea_orm::prelude::Uuid;
use sea_orm::{DatabaseTransaction, DbErr, EntityTrait};

/// Locks an export before any of its rows, in the order of cancellations and deletions. `None` if
/// it is gone: its remaining rows are waiting for cleanup.
pub(super) async fn lock_export(
    within: &DatabaseTransaction,
    id: Uuid,
) -> Result<Option<exports::Model>, DbErr> {
    let query = locked(within, exports::Entity::find_by_id(id));
    query.one(within).await
}

/// Locks an export like [`lock_export`], without a wait. `None` if another transaction has locked
/// it, too.
pub(super) async fn lock_free_export(
    within: &DatabaseTransaction,
    id: Uuid,
) -> Result<Option<exports::Model>, DbErr> {
    let query = locked_if_free(within, exports::Entity::find_by_id(id));
    query.one(within).await
}

/// Locks a backfill that has not ended, and its export before it.
pub(super) async fn lock_open_backfill(
    within: &DatabaseTransaction,
    id: Uuid,
) -> Result<Option<backfills::Model>, DbErr> {
    let query = backfills::Entity::find_by_id(id);
    let Some(seen) = query.clone().one(within).await? else {
        return Ok(None);
    };
    if lock_export(within, seen.batch_export_id).await?.is_none() {
        // The backfill's rows are deleted piece by piece after the export.
        return Ok(None);
    }
    let found = locked(within, query).one(within).await?;
    Ok(found.filter(|backfill| backfill.status.is_open()))
}
