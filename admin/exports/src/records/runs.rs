//! Runs as people see them: list, retry, cancel. A run is one window of an export.

use super::audit::audit_change;
use super::cancel_runs::hold_for_take_back;
use super::latest::keep_latest_runs;
use super::{Backfills, ExportLogs, ExportPlace, ExportRuns, found_for_use, found_to_stop, of};
use millrace_catalog::entities::batch_export_logs::LogLevel;
use millrace_catalog::entities::batch_export_runs::{self as runs, RunStatus};
use millrace_catalog::entities::batch_exports as exports;
use millrace_catalog::transaction::{Abort, locked};
use millrace_catalog::{Activity, Actor, CatalogError, ChangeError, Page, PageRequest, UtcTime};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveEnum, ActiveModelTrait, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait,
    IntoActiveModel, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, Select,
};

/// Filter and order of a list of runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunFilter {
    /// Only runs that were created at this time or later.
    pub after: Option<UtcTime>,
    /// Only runs that were created before.
    pub before: Option<UtcTime>,
    /// Only runs whose window starts then or later.
    pub start: Option<UtcTime>,
    /// Only runs whose window starts before.
    pub end: Option<UtcTime>,
    /// Order of the list.
    pub order: RunOrder,
}

/// Order of a list of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunOrder {
    /// By creation, the latest first.
    #[default]
    NewestFirst,
    /// By their windows, the earliest first.
    EarliestWindowFirst,
    /// By their windows, the latest first.
    LatestWindowFirst,
}

impl ExportRuns<'_> {
    /// Lists the runs of an export; `None` if there is no such export.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list(
        self,
        place: ExportPlace,
        export_id: Uuid,
        filter: RunFilter,
        page: PageRequest,
    ) -> Result<Option<Page<runs::Model>>, CatalogError> {
        let read = async {
            let export = of(place).filter(exports::Column::Id.eq(export_id));
            if export.one(self.0.reader()).await?.is_none() {
                return Ok(None);
            }
            let query = filtered(export_id, filter);
            let count = query.clone().count(self.0.reader()).await?;
            let query = ordered(query, filter.order);
            let query = query.offset(page.offset).limit(page.limit);
            let rows = query.all(self.0.reader()).await?;
            Ok(Some(Page { count, rows }))
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Finds one run.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn get(
        self,
        place: ExportPlace,
        export_id: Uuid,
        id: Uuid,
    ) -> Result<Option<runs::Model>, CatalogError> {
        let read = async {
            let export = of(place).filter(exports::Column::Id.eq(export_id));
            if export.one(self.0.reader()).await?.is_none() {
                return Ok(None);
            }
            let run = runs::Entity::find_by_id(id);
            let run = run.filter(runs::Column::BatchExportId.eq(export_id));
            run.one(self.0.reader()).await
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Starts a run that ended again, with the same window.
    ///
    /// # Errors
    ///
    /// No right to write, no such run, or it has not ended.
    pub async fn retry(
        self,
        actor: &Actor,
        place: ExportPlace,
        export_id: Uuid,
        id: Uuid,
    ) -> Result<runs::Model, ChangeError> {
        let transaction = self.0.begin().await?;
        let retried = async {
            let export = found_for_use(&transaction, actor, place, export_id).await?;
            let before = run_of(&transaction, export_id, id).await?;
            if before.status.is_open() {
                return Err(refused("The run has not ended; cancel it first."));
            }
            let mut after = before.clone();
            after.status = RunStatus::Starting;
            after.records_completed = None;
            after.records_total_count = None;
            after.cursor = None;
            after.bytes_exported = None;
            after.latest_error = None;
            after.finished_at = None;
            (after.next_try_at, after.failures_count) = (0, 0);
            if let Some(backfill_id) = after.backfill_id {
                Backfills::new(self.0)
                    .reopen(&transaction, backfill_id)
                    .await?;
            }
            let message = "Somebody asked for another try.";
            self.save(&transaction, actor, (&export, &before), after, message)
                .await
        };
        let retried = retried.await;
        self.0.finish(transaction, retried).await
    }

    /// Cancels a run that has not ended. The process that makes it notices at its next record.
    ///
    /// # Errors
    ///
    /// No right to write, no such run, or it has ended.
    pub async fn cancel(
        self,
        actor: &Actor,
        place: ExportPlace,
        export_id: Uuid,
        id: Uuid,
    ) -> Result<runs::Model, ChangeError> {
        let transaction = self.0.begin().await?;
        let cancelled = async {
            let export = found_to_stop(&transaction, actor, place, export_id).await?;
            let before = run_of(&transaction, export_id, id).await?;
            if !before.status.is_open() {
                return Err(refused("The run has ended; there is nothing to cancel."));
            }
            hold_for_take_back(&transaction, export_id, runs::Column::Id.eq(id)).await?;
            let mut after = before.clone();
            after.status = RunStatus::Cancelled;
            after.finished_at = Some(self.0.now());
            // The process that makes it finds its claim gone.
            after.claim = None;
            if let Some(backfill_id) = after.backfill_id {
                Backfills::new(self.0)
                    .run_ended(&transaction, backfill_id)
                    .await?;
            }
            let message = "Somebody cancelled the run.";
            self.save(&transaction, actor, (&export, &before), after, message)
                .await
        };
        let cancelled = cancelled.await;
        self.0.finish(transaction, cancelled).await
    }

    /// Writes a run that somebody changed, with its entry in the activity log and a line in the
    /// run's log.
    async fn save(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        (export, before): (&exports::Model, &runs::Model),
        mut after: runs::Model,
        message: &str,
    ) -> Result<runs::Model, Abort> {
        after.last_updated_at = self.0.now();
        let field = format!("runs__{}__status", after.id);
        let (was, is) = (before.status.to_value(), after.status.to_value());
        let audit = audit_change(Activity::Updated, export).field(&field, was, is);
        let saved = after.into_active_model().reset_all().update(within).await?;
        keep_latest_runs(within, export.id).await?;
        self.0.record(within, actor, audit).await?;
        ExportLogs::new(self.0)
            .log(within, export.id, Some(saved.id), LogLevel::Info, message)
            .await?;
        Ok(saved)
    }
}

fn filtered(export_id: Uuid, filter: RunFilter) -> Select<runs::Entity> {
    let from = |column: runs::Column, from: Option<UtcTime>| from.map(|at| column.gte(at));
    let until = |column: runs::Column, until: Option<UtcTime>| until.map(|at| column.lt(at));
    let conditions = [
        from(runs::Column::CreatedAt, filter.after),
        until(runs::Column::CreatedAt, filter.before),
        from(runs::Column::DataIntervalStart, filter.start),
        until(runs::Column::DataIntervalStart, filter.end),
    ];
    let query = runs::Entity::find().filter(runs::Column::BatchExportId.eq(export_id));
    let conditions = conditions.into_iter().flatten();
    conditions.fold(query, |query, condition| query.filter(condition))
}

fn ordered(query: Select<runs::Entity>, order: RunOrder) -> Select<runs::Entity> {
    match order {
        RunOrder::NewestFirst => query,
        RunOrder::EarliestWindowFirst => query.order_by_asc(runs::Column::DataIntervalEnd),
        RunOrder::LatestWindowFirst => query.order_by_desc(runs::Column::DataIntervalEnd),
    }
    .order_by_desc(runs::Column::Ordinal)
}

/// Locks a run of an export, which is locked, for a change.
async fn run_of(
    within: &DatabaseTransaction,
    export_id: Uuid,
    id: Uuid,
) -> Result<runs::Model, Abort> {
    let query = runs::Entity::find_by_id(id).filter(runs::Column::BatchExportId.eq(export_id));
    let run = locked(within, query).one(within).await?;
    run.ok_or_else(|| ChangeError::not_found("run", &id).into())
}

fn refused(detail: &str) -> Abort {
    ChangeError::invalid(None, "invalid_input", detail).into()
}
