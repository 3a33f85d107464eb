//! The newest runs of exports.
//!
//! A page of a thousand exports has ten thousand of them, and a row of a driver costs more than a
//! run is worth. So there is one row per export, with its runs in JSON: an array of arrays, which
//! the database writes and [`Packed`] reads.

use super::SeenBatchExport;
use crate::entities::batch_export_runs::{self as runs, RunStatus};
use crate::entities::batch_exports as exports;
use crate::time::UtcTime;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, ExprTrait, Func, SimpleExpr};
use sea_orm::{
    ColumnTrait, ColumnType, ConnectionTrait, DbBackend, DbErr, EntityTrait, FromQueryResult,
    Iterable, JoinType, QueryFilter, QuerySelect, RelationDef, TryGetableFromJson,
};
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::HashMap;

/// How many runs are answered with an export.
const LATEST_RUNS: i64 = 10;

/// The newest runs of one export.
#[derive(FromQueryResult)]
struct Row {
    id: Uuid,
    runs: PackedRuns,
}

#[derive(Deserialize)]
struct PackedRuns(Vec<Packed>);

impl TryGetableFromJson for PackedRuns {}

/// A run without its export: the elements of an array, in the order of the table's columns.
#[derive(Deserialize)]
struct Packed {
    id: Uuid,
    ordinal: i64,
    backfill_id: Option<Uuid>,
    status: RunStatus,
    data_interval_start: Option<i64>,
    data_interval_end: i64,
    records_completed: Option<i64>,
    records_total_count: Option<i64>,
    cursor: Option<String>,
    latest_error: Option<String>,
    created_at: i64,
    finished_at: Option<i64>,
    last_updated_at: i64,
}

impl Packed {
    fn of(self, batch_export_id: Uuid) -> runs::Model {
        runs::Model {
            id: self.id,
            batch_export_id,
            ordinal: self.ordinal,
            backfill_id: self.backfill_id,
            status: self.status,
            data_interval_start: self.data_interval_start.map(UtcTime),
            data_interval_end: UtcTime(self.data_interval_end),
            records_completed: self.records_completed,
            records_total_count: self.records_total_count,
            cursor: self.cursor,
            latest_error: self.latest_error,
            created_at: UtcTime(self.created_at),
            finished_at: self.finished_at.map(UtcTime),
            last_updated_at: UtcTime(self.last_updated_at),
        }
    }
}

/// Adds the newest runs, in one statement for all. The ordinals make that a range of an index,
/// however many runs there are.
pub(super) async fn with_runs<C: ConnectionTrait>(
    db: &C,
    found: Vec<exports::Model>,
) -> Result<Vec<SeenBatchExport>, DbErr> {
    let run = found.iter().filter(|export| export.runs_count > 0);
    let ids: Vec<_> = run.map(|export| export.id).collect();
    let mut latest = if ids.is_empty() {
        HashMap::new()
    } else {
        latest_runs(db, ids).await?
    };
    let with = |export: exports::Model| SeenBatchExport {
        latest_runs: latest.remove(&export.id).unwrap_or_default(),
        export,
    };
    Ok(found.into_iter().map(with).collect())
}

/// By export, newest first.
async fn latest_runs<C: ConnectionTrait>(
    db: &C,
    export_ids: Vec<Uuid>,
) -> Result<HashMap<Uuid, Vec<runs::Model>>, DbErr> {
    let runs_of_export: RelationDef = exports::Entity::belongs_to(runs::Entity)
        .from(exports::Column::Id)
        .to(runs::Column::BatchExportId)
        .into();
    let oldest = Expr::col((exports::Entity, exports::Column::RunsCount)).sub(LATEST_RUNS);
    let rows = exports::Entity::find()
        .select_only()
        .column(exports::Column::Id)
        .column_as(packed(db.get_database_backend()), "runs")
        .join(JoinType::InnerJoin, runs_of_export)
        .filter(exports::Column::Id.is_in(export_ids))
        .filter(Expr::col((runs::Entity, runs::Column::Ordinal)).gt(oldest))
        .group_by(exports::Column::Id)
        .into_model::<Row>()
        .all(db)
        .await?;
    let unpacked = rows.into_iter().map(|row| {
        let runs = row.runs.0.into_iter().map(|run| run.of(row.id));
        let mut runs: Vec<_> = runs.collect();
        runs.sort_by_key(|run| Reverse(run.ordinal));
        (row.id, runs)
    });
    Ok(unpacked.collect())
}

/// The runs of a group as JSON.
fn packed(backend: DbBackend) -> SimpleExpr {
    let (array, array_of_group) = match backend {
        DbBackend::Postgres => ("json_build_array", "json_agg"),
        _ => ("json_array", "json_group_array"),
    };
    let columns =
        runs::Column::iter().filter(|column| !matches!(column, runs::Column::BatchExportId));
    let elements = columns.map(|column| element(backend, column));
    let run = Func::cust(array).args(elements);
    Func::cust(array_of_group).arg(run).into()
}

/// A column's value, as JSON can hold it: SQLite keeps UUIDs as bytes.
fn element(backend: DbBackend, column: runs::Column) -> SimpleExpr {
    let value = Expr::col((runs::Entity, column));
    if backend == DbBackend::Sqlite && *column.def().get_column_type() == ColumnType::Uuid {
        let hex = Func::cust("hex").arg(value);
        Func::cust("nullif").arg(hex).arg("").into()
    } else {
        value
    }
}
