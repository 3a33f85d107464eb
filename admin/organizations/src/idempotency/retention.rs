//! Deletion of forgotten responses, and of the counts of their bytes.
//!
//! Each claim sweeps some, and so does `cleanup` where nobody claims. A piece is bounded in bytes
//! as well: responses of up to 5 MiB, which others stored, would hold up whoever comes next.

use super::{IdempotencyKeys, response_bytes};
use millrace_catalog::entities::{idempotency_bytes as counts, idempotency_keys as keys};
use millrace_catalog::{CatalogError, UtcTime};
use sea_orm::sea_query::{Expr, LockBehavior, LockType, SimpleExpr};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect,
};

/// Lifetime of a stored response, in microseconds.
pub(super) const KEPT_MICROS: i64 = 24 * 3_600 * 1_000_000;
/// Responses of a piece, and bytes of their bodies but for the last one: each claim adds one.
const SWEPT_MAX: u64 = 100;
const SWEPT_BYTES_MAX: i64 = 8 << 20;
/// Counts of a piece.
const COUNTS_MAX: u64 = 2_000;
/// Length of a body, which is known without reading it.
const BODY_BYTES: &str = "CAST(COALESCE(octet_length(body), 0) AS BIGINT)";

impl IdempotencyKeys<'_> {
    /// Deletes a piece of the forgotten responses, or of the counts of their bytes. Answers how
    /// many; 0: nothing is left to delete.
    ///
    /// # Errors
    ///
    /// Any database error; then nothing was deleted.
    pub async fn prune_responses(self) -> Result<u64, CatalogError> {
        let now = self.0.now();
        // Read apart, so that nothing is locked where nothing is old.
        let old = keys::Entity::find()
            .select_only()
            .column(keys::Column::Id)
            .filter(is_forgotten(now))
            .into_tuple::<String>()
            .one(self.0.reader())
            .await
            .map_err(|error| self.0.error(&error))?;
        if old.is_none() {
            let deleted = self.delete_counts(now).await;
            return deleted.map_err(|error| self.0.error(&error));
        }
        let transaction = self.0.begin().await?;
        let swept = sweep(&transaction, now).await;
        let swept = swept.map_err(|error| self.0.error(&error))?;
        self.0.commit(transaction).await?;
        Ok(swept)
    }

    /// Deletes counts of the oldest hour, if none of its responses is stored any more.
    async fn delete_counts(self, now: UtcTime) -> Result<u64, DbErr> {
        let old = counts::Entity::find()
            .filter(counts::Column::Hour.lte(now.plus_micros(-response_bytes::COUNTED_MICROS)))
            .order_by_asc(counts::Column::Hour)
            .limit(COUNTS_MAX)
            .all(self.0.reader())
            .await?;
        let Some(hour) = old.first().map(|count| count.hour) else {
            return Ok(0);
        };
        let holders = old.into_iter().filter(|count| count.hour == hour);
        let gone = counts::Entity::delete_many()
            .filter(counts::Column::Hour.eq(hour))
            .filter(counts::Column::Holder.is_in(holders.map(|count| count.holder)))
            .exec(self.0.writer())
            .await?;
        Ok(gone.rows_affected)
    }
}

/// Condition for rows whose time is over.
pub(super) fn is_forgotten(now: UtcTime) -> SimpleExpr {
    keys::Column::CreatedAt.lte(now.plus_micros(-KEPT_MICROS))
}

/// Deletes a piece of the forgotten responses, the oldest first. Rows that another claim deletes at
/// the same time are skipped, as two transactions that lock the same rows in another order would
/// deadlock.
pub(super) async fn sweep(within: &DatabaseTransaction, now: UtcTime) -> Result<u64, DbErr> {
    let mut part = keys::Entity::find()
        .select_only()
        .column(keys::Column::Id)
        .column_as(Expr::cust(BODY_BYTES), "bytes")
        .filter(is_forgotten(now))
        .order_by_asc(keys::Column::CreatedAt)
        .limit(SWEPT_MAX);
    if within.get_database_backend() == DbBackend::Postgres {
        part = part.lock_with_behavior(LockType::Update, LockBehavior::SkipLocked);
    }
    let part: Vec<(String, i64)> = part.into_tuple().all(within).await?;
    let mut bytes = 0;
    let fit = part.into_iter().take_while(|(_, body_bytes)| {
        let fits = bytes < SWEPT_BYTES_MAX;
        bytes += body_bytes;
        fits
    });
    let ids: Vec<String> = fit.map(|(id, _)| id).collect();
    if ids.is_empty() {
        return Ok(0);
    }
    let swept = keys::Entity::delete_many().filter(keys::Column::Id.is_in(ids));
    let swept = swept.exec(within).await?;
    Ok(swept.rows_affected)
}
