//! Exports with values that this version does not know.
//!
//! A later version may have stored such an interval, model or type of destination, and people edit
//! rows by hand. The statements that find the next work leave these exports out: otherwise each
//! would be found again and again, before all others, and nothing could be done for it.

use super::cancel_runs::cancel_open_runs;
use super::{BatchExports, ExportInterval, ExportLogs};
use millrace_catalog::CatalogError;
use millrace_catalog::entities::batch_export_backfills as backfills;
use millrace_catalog::entities::batch_export_logs::LogLevel;
use millrace_catalog::entities::batch_export_runs::{self as runs, RunStatus};
use millrace_catalog::entities::batch_exports::{self as exports, DestinationType, ExportModel};
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, ExprTrait, IntoColumnRef, Query};
use sea_orm::{
    ActiveEnum, ColumnTrait, Condition, DatabaseTransaction, DbErr, EntityTrait, Iterable,
    QueryFilter, QueryOrder, QuerySelect,
};

/// Most exports that are listed.
const LISTED_MAX: u64 = 1_000;

/// Value of an export that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnknownExportValue {
    /// Export that is left alone until the value is corrected.
    pub export_id: Uuid,
    /// Column of the value.
    pub field: &'static str,
    /// Value as it is stored.
    pub value: String,
}

impl BatchExports<'_> {
    /// Lists exports that are left alone, in the order of their ids, a thousand at most: each with
    /// the first of its values that this version does not know.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn unknown_values(self) -> Result<Vec<UnknownExportValue>, CatalogError> {
        let found = exports::Entity::find()
            .select_only()
            .columns([
                exports::Column::Id,
                exports::Column::Interval,
                exports::Column::Model,
                exports::Column::DestinationType,
            ])
            .filter(is_known().not())
            .order_by_asc(exports::Column::Id)
            .limit(LISTED_MAX)
            .into_tuple::<StoredValues>()
            .all(self.0.reader())
            .await;
        let found = found.map_err(|error: DbErr| self.0.error(&error))?;
        Ok(found.into_iter().filter_map(unknown_value).collect())
    }
}

impl BatchExports<'_> {
    /// Pauses the exports of an organization, which is locked, that cannot be read, and cancels
    /// their backfills, column by column: a later version would go on with them. The log of each
    /// has a line; the activity log has no entry.
    pub(super) async fn pause_unreadable(
        self,
        within: &DatabaseTransaction,
        organization_id: Uuid,
    ) -> Result<(), DbErr> {
        let ids = exports::Entity::find()
            .select_only()
            .column(exports::Column::Id)
            .filter(exports::Column::OrganizationId.eq(organization_id))
            .filter(is_readable().not())
            .order_by_asc(exports::Column::Id)
            .into_tuple::<Uuid>()
            .all(within)
            .await?;
        for id in ids {
            self.pause_by_columns(within, id).await?;
            let message = "The export is paused: the organization may not use batch exports now.";
            ExportLogs::new(self.0)
                .log(within, id, None, LogLevel::Warning, message)
                .await?;
            tracing::warn!(export_id = %id, "an export that this version cannot read is paused");
        }
        Ok(())
    }

    async fn pause_by_columns(self, within: &DatabaseTransaction, id: Uuid) -> Result<(), DbErr> {
        let now = self.0.now();
        let cancelled = Expr::value(RunStatus::Cancelled.to_value());
        exports::Entity::update_many()
            .col_expr(exports::Column::Paused, Expr::value(true))
            .col_expr(exports::Column::LastPausedAt, Expr::value(now))
            .col_expr(exports::Column::PausedSince, Expr::value(now))
            .filter(exports::Column::Id.eq(id))
            .filter(exports::Column::Paused.eq(false))
            .exec(within)
            .await?;
        let of_backfills = runs::Column::BackfillId.is_not_null();
        cancel_open_runs(within, id, of_backfills, now).await?;
        backfills::Entity::update_many()
            .col_expr(backfills::Column::Status, cancelled)
            .col_expr(backfills::Column::FinishedAt, Expr::value(now))
            .filter(backfills::Column::BatchExportId.eq(id))
            .filter(backfills::Column::FinishedAt.is_null())
            .exec(within)
            .await
            .map(drop)
    }
}

/// Id, interval, model and type of destination, as they are stored.
type StoredValues = (Uuid, String, String, String);

/// Condition of exports whose windows by the clock can be planned.
pub(super) fn is_known() -> Condition {
    let intervals = ExportInterval::all().map(|interval| interval.to_string());
    is_readable().add(exports::Column::Interval.is_in(intervals))
}

/// Condition of exports whose rows can be read, whatever their intervals are.
pub(super) fn is_readable() -> Condition {
    Condition::all()
        .add(exports::Column::Model.is_in(ExportModel::iter()))
        .add(exports::Column::DestinationType.is_in(DestinationType::iter()))
}

/// Condition of rows whose export can be read, by their column with its id.
pub(super) fn has_readable_export(export_id: impl IntoColumnRef) -> Expr {
    let mut export = Query::select();
    export
        .expr(Expr::value(1))
        .from(exports::Entity)
        .and_where(Expr::col((exports::Entity, exports::Column::Id)).equals(export_id))
        .cond_where(is_readable());
    Expr::exists(export)
}

fn unknown_value((export_id, interval, model, kind): StoredValues) -> Option<UnknownExportValue> {
    let (field, value) = if ExportInterval::stored(&interval).is_none() {
        ("interval", interval)
    } else if ExportModel::try_from_value(&model).is_err() {
        ("model", model)
    } else if DestinationType::try_from_value(&kind).is_err() {
        ("destination_type", kind)
    } else {
        return None;
    };
    Some(UnknownExportValue {
        export_id,
        field,
        value,
    })
}
