//! Wire types of exports, runs and backfills.

use super::destinations::{self, Direction};
use millrace_catalog::{
    BatchExportBackfill, BatchExportRun, DestinationType, ExportModel, RunStatus, UtcTime,
};
use millrace_exports::BatchExportView;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use uuid::Uuid;

/// Kind of rows that are exported.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "BatchExportModel")]
pub(super) enum ModelName {
    Events,
    Persons,
}

/// Type of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "BatchExportDestinationType")]
pub(super) enum TypeName {
    S3,
    AzureBlob,
    #[serde(rename = "GCS")]
    Gcs,
    FileSystem,
    Postgres,
    Redshift,
    Snowflake,
    BigQuery,
    Databricks,
    ClickHouse,
    #[serde(rename = "HTTP")]
    Http,
    NoOp,
}

/// Status of a run or a backfill.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportRunStatus")]
pub(super) enum StatusName {
    Starting,
    Running,
    Completed,
    Failed,
    FailedRetryable,
    Cancelled,
    Terminated,
    TimedOut,
}

/// Implements the conversions between two enumerations with the same variants.
macro_rules! same {
    ($wire:ty, $kept:ty, $($variant:ident)+) => {
        impl From<$wire> for $kept {
            fn from(name: $wire) -> Self {
                match name { $(<$wire>::$variant => Self::$variant,)+ }
            }
        }

        impl From<$kept> for $wire {
            fn from(kept: $kept) -> Self {
                match kept { $(<$kept>::$variant => Self::$variant,)+ }
            }
        }
    };
}

same!(ModelName, ExportModel, Events Persons);
same!(TypeName, DestinationType, S3 AzureBlob Gcs FileSystem Postgres Redshift Snowflake BigQuery
    Databricks ClickHouse Http NoOp);
same!(StatusName, RunStatus, Starting Running Completed Failed FailedRetryable Cancelled
    Terminated TimedOut);

/// Destination of an export, without its secrets.
#[derive(Debug, Serialize)]
struct DestinationBody {
    #[serde(rename = "type")]
    kind: TypeName,
    /// Fields of the type, without its secrets.
    config: Map<String, Value>,
}

impl JsonSchema for DestinationBody {
    fn schema_name() -> Cow<'static, str> {
        "BatchExportDestination".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        destinations::schema(generator, Direction::Response)
    }
}

/// A batch export.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExport")]
pub(super) struct ExportBody {
    /// Id of the export.
    pub(super) id: Uuid,
    /// Id of the project whose rows are exported.
    team_id: i64,
    /// Name of the export.
    name: String,
    /// Kind of rows that are exported.
    model: ModelName,
    /// Destination of the rows, without its secrets.
    destination: DestinationBody,
    /// Interval of the runs: `hour`, `day`, `week` or `every N minutes`.
    interval: String,
    /// True if no runs start.
    paused: bool,
    /// Time of the creation.
    created_at: UtcTime,
    /// Time of the last change.
    last_updated_at: UtcTime,
    /// Time of the last pause; null if there was none.
    last_paused_at: Option<UtcTime>,
    /// Time before which no run starts.
    start_at: Option<UtcTime>,
    /// Time after which no run starts.
    end_at: Option<UtcTime>,
    /// Newest runs, newest first, at most ten.
    latest_runs: Vec<RunBody>,
    /// Query that selects rows and columns; null: all.
    hogql_query: Option<String>,
    /// Columns and values of the query.
    schema: Option<Value>,
}

impl From<BatchExportView> for ExportBody {
    fn from(view: BatchExportView) -> Self {
        let export = view.export;
        let config = match export.destination_config {
            Value::Object(config) => config,
            _ => Map::new(),
        };
        Self {
            id: export.id,
            team_id: export.team_id,
            name: export.name,
            model: export.model.into(),
            destination: DestinationBody {
                kind: export.destination_type.into(),
                config,
            },
            interval: export.interval,
            paused: export.paused,
            created_at: export.created_at,
            last_updated_at: export.last_updated_at,
            last_paused_at: export.last_paused_at,
            start_at: export.start_at,
            end_at: export.end_at,
            latest_runs: view.latest_runs.into_iter().map(RunBody::from).collect(),
            hogql_query: export.hogql_query,
            schema: export.query_schema,
        }
    }
}

/// A run of a batch export.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportRun")]
pub(super) struct RunBody {
    /// Id of the run.
    id: Uuid,
    /// Status of the run.
    status: StatusName,
    /// Number of rows delivered.
    records_completed: Option<i64>,
    /// Cause of the last failure; null if there was none.
    latest_error: Option<String>,
    /// Start of the window; null: the beginning.
    data_interval_start: Option<UtcTime>,
    /// End of the window; its rows are earlier.
    data_interval_end: UtcTime,
    /// Position at which the run resumes after a restart.
    cursor: Option<String>,
    /// Time of the creation.
    created_at: UtcTime,
    /// Time of the end; null until then.
    finished_at: Option<UtcTime>,
    /// Time of the last progress.
    last_updated_at: UtcTime,
    /// Number of rows in the window.
    records_total_count: Option<i64>,
    /// Number of bytes delivered, as they were sent.
    bytes_exported: Option<i64>,
    /// Id of the export.
    batch_export: Uuid,
    /// Id of the backfill; null for a scheduled run.
    backfill: Option<Uuid>,
}

impl From<BatchExportRun> for RunBody {
    fn from(run: BatchExportRun) -> Self {
        Self {
            id: run.id,
            status: run.status.into(),
            records_completed: run.records_completed,
            latest_error: run.latest_error,
            data_interval_start: run.data_interval_start,
            data_interval_end: run.data_interval_end,
            cursor: run.cursor,
            created_at: run.created_at,
            finished_at: run.finished_at,
            last_updated_at: run.last_updated_at,
            records_total_count: run.records_total_count,
            bytes_exported: run.bytes_exported,
            batch_export: run.batch_export_id,
            backfill: run.backfill_id,
        }
    }
}

/// Progress of a backfill.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportBackfillProgress")]
struct ProgressBody {
    /// Number of runs; null until it is known.
    total_runs: Option<i64>,
    /// Number of runs that have ended.
    finished_runs: i64,
    /// Finished part, from 0 to 1; null until it is known.
    progress: Option<f64>,
}

/// A backfill of a batch export.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportBackfill")]
pub(super) struct BackfillBody {
    /// Id of the backfill.
    id: Uuid,
    /// Id of the export.
    batch_export: Uuid,
    /// Start of the range; null: the beginning.
    start_at: Option<UtcTime>,
    /// End of the range; null: the time of its creation.
    end_at: Option<UtcTime>,
    /// Status of the backfill.
    status: StatusName,
    /// Time of the creation.
    created_at: UtcTime,
    /// Time of the end; null until then.
    finished_at: Option<UtcTime>,
    /// Time of the last progress.
    last_updated_at: UtcTime,
    /// Number of runs, and how many have ended.
    progress: ProgressBody,
    /// Reason why it has no runs, or failed; null otherwise.
    message: Option<String>,
}

impl From<BatchExportBackfill> for BackfillBody {
    fn from(backfill: BatchExportBackfill) -> Self {
        let (total, finished) = (backfill.total_runs, backfill.finished_runs);
        #[expect(
            clippy::cast_precision_loss,
            reason = "a part of the whole, for people"
        )]
        let part = |total: i64| match total {
            0 => 1.0,
            total => (finished as f64 / total as f64).min(1.0),
        };
        Self {
            id: backfill.id,
            batch_export: backfill.batch_export_id,
            start_at: backfill.start_at,
            end_at: backfill.end_at,
            status: backfill.status.into(),
            created_at: backfill.created_at,
            finished_at: backfill.finished_at,
            last_updated_at: backfill.last_updated_at,
            progress: ProgressBody {
                total_runs: total,
                finished_runs: finished,
                progress: total.map(part),
            },
            message: backfill.message,
        }
    }
}
