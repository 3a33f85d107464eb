//! Rows of deleted batch exports.

use super::{Cleanup, ROWS_MAX};
use crate::entities::{
    batch_export_backfills as backfills, batch_export_logs as logs, batch_export_runs as runs,
    deleted_batch_exports as deleted,
};
use sea_orm::prelude::Uuid;
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait};

impl Cleanup<'_> {
    /// Deletes a piece of the rows that deleted exports left; answers how many rows. A log line, or
    /// the error of a run, has 4 KiB at most, so a piece has 8 MiB.
    ///
    /// Lines go before their runs and runs before their backfills, as a cascade deletes lines with
    /// their run and runs with their backfill: a piece of runs or backfills would otherwise take
    /// along any number of those.
    pub(super) async fn delete_of_batch_export(self) -> Result<u64, DbErr> {
        let first = deleted::Entity::find()
            .order_by_asc(deleted::Column::BatchExportId)
            .one(&self.0.db)
            .await?;
        let Some(deleted::Model { batch_export_id }) = first else {
            return Ok(0);
        };
        let mut count = self.delete_lines(batch_export_id).await?;
        if count == 0 {
            count = self.delete_runs(batch_export_id).await?;
        }
        if count == 0 {
            count = self.delete_backfills(batch_export_id).await?;
        }
        if count > 0 {
            return Ok(count);
        }
        let done = deleted::Entity::delete_by_id(batch_export_id)
            .exec(&self.0.writer)
            .await?;
        tracing::info!(export = %batch_export_id, "all rows of a deleted batch export are deleted");
        Ok(done.rows_affected)
    }

    async fn delete_lines(self, export_id: Uuid) -> Result<u64, DbErr> {
        let piece = logs::Entity::find()
            .select_only()
            .column(logs::Column::Id)
            .filter(logs::Column::BatchExportId.eq(export_id))
            .limit(ROWS_MAX)
            .into_query();
        let gone = logs::Entity::delete_many()
            .filter(logs::Column::Id.in_subquery(piece))
            .exec(&self.0.writer)
            .await?;
        Ok(gone.rows_affected)
    }

    async fn delete_runs(self, export_id: Uuid) -> Result<u64, DbErr> {
        let piece = runs::Entity::find()
            .select_only()
            .column(runs::Column::Id)
            .filter(runs::Column::BatchExportId.eq(export_id))
            .limit(ROWS_MAX)
            .into_query();
        let gone = runs::Entity::delete_many()
            .filter(runs::Column::Id.in_subquery(piece))
            .exec(&self.0.writer)
            .await?;
        Ok(gone.rows_affected)
    }

    async fn delete_backfills(self, export_id: Uuid) -> Result<u64, DbErr> {
        let piece = backfills::Entity::find()
            .select_only()
            .column(backfills::Column::Id)
            .filter(backfills::Column::BatchExportId.eq(export_id))
            .limit(ROWS_MAX)
            .into_query();
        let gone = backfills::Entity::delete_many()
            .filter(backfills::Column::Id.in_subquery(piece))
            .exec(&self.0.writer)
            .await?;
        Ok(gone.rows_affected)
    }
}
