//! Newest runs of exports, which are answered with them. They are kept in one row per export:
//! reading a row costs more than a run is worth.

use millrace_catalog::entities::batch_export_latest_runs::{self as latest, LatestRuns};
use millrace_catalog::entities::batch_export_runs::{self as runs, RunStatus};
use millrace_catalog::entities::batch_exports as exports;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::OnConflict;
use sea_orm::{
    ActiveValue, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, Iterable, JoinType,
    QueryFilter, QueryOrder, QuerySelect, RelationDef, Select, SelectTwo,
};

/// Number of runs that are answered with an export.
pub(super) const LATEST_RUNS: u64 = 10;

/// Joins exports with their newest runs.
pub(super) fn with_runs(
    query: Select<exports::Entity>,
) -> SelectTwo<exports::Entity, latest::Entity> {
    let same: RelationDef = exports::Entity::belongs_to(latest::Entity)
        .from(exports::Column::Id)
        .to(latest::Column::BatchExportId)
        .into();
    query
        .join(JoinType::LeftJoin, same)
        .select_also(latest::Entity)
}

/// Export with its newest runs, as the API answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchExportView {
    /// Row of the export.
    pub export: exports::Model,
    /// Newest runs of the export, newest first.
    pub latest_runs: Vec<runs::Model>,
}

impl BatchExportView {
    /// Combines an export with its newest runs; none where it has not run yet.
    pub(super) fn of((export, latest): (exports::Model, Option<latest::Model>)) -> Self {
        let runs = latest.map(|latest| latest.runs.runs(export.id));
        Self {
            latest_runs: runs.unwrap_or_default(),
            export,
        }
    }
}

/// Keeps the newest runs of an export, after some of them changed. The export is locked.
pub(super) async fn keep_latest_runs(
    within: &DatabaseTransaction,
    export_id: Uuid,
) -> Result<(), DbErr> {
    let newest = runs::Entity::find()
        .filter(runs::Column::BatchExportId.eq(export_id))
        // A later version may have stored another status, which is not to stop this export.
        .filter(runs::Column::Status.is_in(RunStatus::iter()))
        .order_by_desc(runs::Column::Ordinal)
        .limit(LATEST_RUNS)
        .all(within)
        .await?;
    let row = latest::ActiveModel {
        batch_export_id: ActiveValue::Set(export_id),
        runs: ActiveValue::Set(LatestRuns::of(newest)),
    };
    let mut again = OnConflict::column(latest::Column::BatchExportId);
    again.update_column(latest::Column::Runs);
    latest::Entity::insert(row)
        .on_conflict(again)
        .exec_without_returning(within)
        .await
        .map(drop)
}
