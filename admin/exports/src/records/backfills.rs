//! Backfills: exports of past times, asked for by people. The planner creates their runs.

use super::audit::audit_change;
use super::backfill_snapshot::snapshot;
use super::cancel_runs::cancel_open_runs;
use super::empty_backfills::{delete_oldest, drop_unused_settings};
use super::run_round_robin::exports_of;
use super::{Backfills, ExportInterval, ExportLogs, ExportPlace, found_for_use, found_to_stop, of};
use millrace_catalog::entities::batch_export_logs::LogLevel;
use millrace_catalog::entities::batch_export_runs::{self as runs, RunStatus};
use millrace_catalog::entities::{batch_export_backfills as backfills, batch_exports as exports};
use millrace_catalog::limits::{OPEN_BACKFILLS_MAX, OPEN_BACKFILLS_OF_ORGANIZATION_MAX};
use millrace_catalog::transaction::{Abort, locked};
use millrace_catalog::{Activity, Actor, CatalogError, ChangeError, Page, PageRequest, UtcTime};
use schemars::JsonSchema;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveEnum, ActiveModelTrait, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait,
    IntoActiveModel, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
};
use serde::Deserialize;

/// Range of times to backfill.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "BatchExportBackfillRange")]
pub struct BackfillRange {
    /// Start of the range; null: the beginning.
    pub start_at: Option<UtcTime>,
    /// End of the range; null: now. At most one interval in the future.
    pub end_at: Option<UtcTime>,
}

/// Request of a backfill.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackfillRequest {
    pub(super) range: BackfillRange,
    /// Time of the request.
    pub(super) at: UtcTime,
    /// Start of the first window; `None`: the window by the clock in which the range starts.
    pub(super) windows_from: Option<UtcTime>,
}

impl Backfills<'_> {
    /// Asks for a backfill.
    ///
    /// # Errors
    ///
    /// No right to write, no such export, a range that is none, one that ends too far in the
    /// future, or too many backfills that have not ended.
    pub async fn start(
        self,
        actor: &Actor,
        place: ExportPlace,
        export_id: Uuid,
        range: BackfillRange,
    ) -> Result<backfills::Model, ChangeError> {
        let transaction = self.0.begin().await?;
        let started = async {
            let export = found_for_use(&transaction, actor, place, export_id).await?;
            let request = BackfillRequest {
                range,
                at: self.0.now(),
                windows_from: None,
            };
            self.insert(&transaction, actor, &export, request).await
        };
        let started = started.await;
        self.0.finish(transaction, started).await
    }

    /// Lists the backfills of an export, newest first; `None` if there is no such export.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list(
        self,
        place: ExportPlace,
        export_id: Uuid,
        page: PageRequest,
    ) -> Result<Option<Page<backfills::Model>>, CatalogError> {
        let read = async {
            let export = of(place).filter(exports::Column::Id.eq(export_id));
            if export.one(self.0.reader()).await?.is_none() {
                return Ok(None);
            }
            let query =
                backfills::Entity::find().filter(backfills::Column::BatchExportId.eq(export_id));
            let count = query.clone().count(self.0.reader()).await?;
            let rows = query
                .order_by_desc(backfills::Column::CreatedAt)
                .order_by_desc(backfills::Column::Id)
                .offset(page.offset)
                .limit(page.limit)
                .all(self.0.reader())
                .await?;
            Ok(Some(Page { count, rows }))
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Finds one backfill.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn get(
        self,
        place: ExportPlace,
        export_id: Uuid,
        id: Uuid,
    ) -> Result<Option<backfills::Model>, CatalogError> {
        let read = async {
            let export = of(place).filter(exports::Column::Id.eq(export_id));
            if export.one(self.0.reader()).await?.is_none() {
                return Ok(None);
            }
            let backfill = backfills::Entity::find_by_id(id);
            let backfill = backfill.filter(backfills::Column::BatchExportId.eq(export_id));
            backfill.one(self.0.reader()).await
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Cancels a backfill that has not ended, and its runs that have not.
    ///
    /// # Errors
    ///
    /// No right to write, no such backfill, or it has ended.
    pub async fn cancel(
        self,
        actor: &Actor,
        place: ExportPlace,
        export_id: Uuid,
        id: Uuid,
    ) -> Result<backfills::Model, ChangeError> {
        let transaction = self.0.begin().await?;
        let cancelled = async {
            let export = found_to_stop(&transaction, actor, place, export_id).await?;
            let query = backfills::Entity::find_by_id(id)
                .filter(backfills::Column::BatchExportId.eq(export_id));
            let before = locked(&transaction, query).one(&transaction).await?;
            let before = before.ok_or_else(|| ChangeError::not_found("backfill", &id))?;
            if !before.status.is_open() {
                let detail = "The backfill has ended; there is nothing to cancel.";
                return Err(ChangeError::invalid(None, "invalid_input", detail).into());
            }
            self.cancel_within(&transaction, actor, &export, before)
                .await
        };
        let cancelled = cancelled.await;
        self.0.finish(transaction, cancelled).await
    }

    pub(super) async fn insert(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        export: &exports::Model,
        request: BackfillRequest,
    ) -> Result<backfills::Model, Abort> {
        let (range, now) = (request.range, request.at);
        let interval = ExportInterval::of(export)?;
        check(interval, range, now)?;
        check_backfill_limit(within, export).await?;
        delete_oldest(within, export.id).await?;
        settle_first_window(within, export, interval).await?;
        let nothing = nothing_ended(interval, request);
        let is_done = nothing.is_some();
        let backfill = backfills::Model {
            id: Uuid::now_v7(),
            batch_export_id: export.id,
            start_at: range.start_at,
            end_at: range.end_at,
            status: match is_done {
                true => RunStatus::Completed,
                false => RunStatus::Starting,
            },
            total_runs: is_done.then_some(0),
            finished_runs: 0,
            created_at: now,
            finished_at: is_done.then_some(now),
            last_updated_at: now,
            message: nothing,
            asked_for: match is_done {
                true => None,
                false => snapshot(export, request.windows_from),
            },
        };
        let row = backfill.into_active_model().reset_all();
        let made = backfills::Entity::insert(row)
            .exec_with_returning(within)
            .await?;
        let field = |name: &str| format!("backfills__{}__{name}", made.id);
        let audit = audit_change(Activity::Updated, export)
            .field(&field("status"), (), made.status.to_value())
            .field(&field("start_at"), (), made.start_at)
            .field(&field("end_at"), (), made.end_at);
        self.0.record(within, actor, audit).await?;
        let message = format!("Somebody asked for backfill {}.", made.id);
        ExportLogs::new(self.0)
            .log(within, export.id, None, LogLevel::Info, &message)
            .await?;
        if let Some(why) = &made.message {
            self.log_empty(within, &made, why).await?;
        }
        Ok(made)
    }

    /// Writes to the export's log why a backfill has no runs.
    pub(super) async fn log_empty(
        self,
        within: &DatabaseTransaction,
        backfill: &backfills::Model,
        why: &str,
    ) -> Result<(), DbErr> {
        let message = format!("Backfill {} has no runs. {why}", backfill.id);
        let export_id = backfill.batch_export_id;
        ExportLogs::new(self.0)
            .log(within, export_id, None, LogLevel::Info, &message)
            .await
    }

    pub(super) async fn cancel_within(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        export: &exports::Model,
        before: backfills::Model,
    ) -> Result<backfills::Model, Abort> {
        let now = self.0.now();
        let cancelled = RunStatus::Cancelled;
        let own = runs::Column::BackfillId.eq(before.id);
        let ended = cancel_open_runs(within, export.id, own, now).await?;
        let was = before.status.to_value();
        let mut after = before;
        after.status = cancelled;
        after.finished_runs += i64::try_from(ended).unwrap_or(0);
        after.finished_at = Some(now);
        after.last_updated_at = now;
        drop_unused_settings(within, &mut after).await?;
        let field = format!("backfills__{}__status", after.id);
        let audit =
            audit_change(Activity::Updated, export).field(&field, was, cancelled.to_value());
        let message = format!("Backfill {} was cancelled.", after.id);
        let saved = after.into_active_model().reset_all().update(within).await?;
        self.0.record(within, actor, audit).await?;
        ExportLogs::new(self.0)
            .log(within, export.id, None, LogLevel::Info, &message)
            .await?;
        Ok(saved)
    }
}

/// Refuses one more backfill where too many have not ended, of the export or of its organization,
/// which is locked.
async fn check_backfill_limit(
    within: &DatabaseTransaction,
    export: &exports::Model,
) -> Result<(), Abort> {
    let of_all = exports_of(export.organization_id);
    let own = backfills::Column::BatchExportId.eq(export.id);
    let all = backfills::Column::BatchExportId.in_subquery(of_all);
    for (who, most, of) in [
        ("A batch export", OPEN_BACKFILLS_MAX, own),
        ("An organization", OPEN_BACKFILLS_OF_ORGANIZATION_MAX, all),
    ] {
        let open = backfills::Entity::find()
            .filter(of)
            .filter(backfills::Column::FinishedAt.is_null());
        if open.count(within).await? >= most {
            let detail = format!(
                "{who} has at most {most} backfills that have not ended. Wait until one has, or cancel one."
            );
            return Err(ChangeError::invalid(None, "invalid_input", detail).into());
        }
    }
    Ok(())
}

/// Keeps where windows by the clock begin, if that is not known yet, as for an export that was
/// paused from the start: a backfill tells rows apart by that.
async fn settle_first_window(
    within: &DatabaseTransaction,
    export: &exports::Model,
    interval: ExportInterval,
) -> Result<(), DbErr> {
    if export.live_since.is_some() {
        return Ok(());
    }
    exports::Entity::update_many()
        .col_expr(
            exports::Column::LiveSince,
            Expr::value(interval.window_start(export.created_at)),
        )
        .filter(exports::Column::Id.eq(export.id))
        .filter(exports::Column::LiveSince.is_null())
        .exec(within)
        .await?;
    Ok(())
}

/// Explains why a range can have no runs, whatever rows there are: backfills are made of whole
/// windows that have ended.
fn nothing_ended(interval: ExportInterval, request: BackfillRequest) -> Option<String> {
    let (range, now) = (request.range, request.at);
    let starts_in = range.start_at.map(|at| interval.window_start(at));
    let first = request.windows_from.or(starts_in)?;
    let current = interval.window_start(now);
    (first >= current).then(|| {
        format!(
            "No window of the range has ended. Windows of this export ({interval}) are exported \
             whole: the next one ends at {}, and is exported then unless the export is paused.",
            interval.window_end(now)
        )
    })
}

fn check(interval: ExportInterval, range: BackfillRange, now: UtcTime) -> Result<(), ChangeError> {
    let refused = |field, detail| Err(ChangeError::invalid(field, "invalid_input", detail));
    let latest = now.plus_micros(interval.micros());
    if range.end_at.is_some_and(|end| end > latest) {
        let detail = "The end may be one interval in the future at most.";
        return refused("end_at", detail);
    }
    let end = range.end_at.unwrap_or(now);
    if range.start_at.is_some_and(|start| start >= end) {
        return refused("start_at", "The start must be before the end.");
    }
    Ok(())
}
