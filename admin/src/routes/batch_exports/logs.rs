//! Operations that read the logs of exports and their runs.

use super::bodies::ExportBody;
use super::paths::{Paths, READ, place};
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::Operation;
use crate::page::Envelope;
use millrace_catalog::{BatchExportLog, LogLevel, UtcTime};
use millrace_exports::ExportLogFilter;
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

/// Most lines of a page.
const LINES_MAX: u64 = 500;

pub(super) fn rows(paths: &Paths) -> Vec<Operation> {
    let filtered = |operation: Operation| {
        operation
            .query("after", "string", "Only lines later than this time.")
            .query("before", "string", "Only lines earlier than this time.")
            .query(
                "level",
                "string",
                "Only these levels, joined with commas: DEBUG, INFO, WARNING, ERROR.",
            )
            .query("search", "string", "Only lines that contain this.")
            .scopes(&READ)
            .fails(400, "invalid_input", "A time is invalid.")
            .fails(400, "invalid_choice", "There is no such level.")
    };
    vec![
        filtered(Operation::get(paths.logs, of_export))
            .large_response()
            .about("Read the log of a batch export and its runs")
            .note("Returns the export and a page of lines, newest first.")
            .query("limit", "integer", "Number of lines; at most 500.")
            .query("offset", "integer", "Number of lines to skip.")
            .query("instance_id", "string", "Only the lines of this run."),
        filtered(Operation::list(paths.run_logs, of_run))
            .about("List the log of a run")
            .note("Newest first."),
    ]
}

/// Level of a log line.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(rename = "BatchExportLogLevel")]
enum LevelName {
    Debug,
    Info,
    Warning,
    Error,
}

impl From<LogLevel> for LevelName {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Debug => Self::Debug,
            LogLevel::Info => Self::Info,
            LogLevel::Warning => Self::Warning,
            LogLevel::Error => Self::Error,
        }
    }
}

/// A line of a log.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportLogEntry")]
struct LineBody {
    /// Id of the export.
    log_source_id: Uuid,
    /// Id of the run; null for lines of the export itself.
    instance_id: Option<Uuid>,
    /// Time of the line.
    timestamp: UtcTime,
    /// Level of the line.
    level: LevelName,
    /// Text of the line.
    message: String,
}

impl From<BatchExportLog> for LineBody {
    fn from(line: BatchExportLog) -> Self {
        Self {
            log_source_id: line.batch_export_id,
            instance_id: line.run_id,
            timestamp: line.logged_at,
            level: line.level.into(),
            message: line.message,
        }
    }
}

/// A batch export and a page of its log.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportWithLogs")]
struct LogsBody {
    #[serde(flatten)]
    export: ExportBody,
    #[serde(flatten)]
    lines: Envelope<LineBody>,
}

async fn of_export(context: Context) -> Result<LogsBody, ApiError> {
    let (place, id) = (place(&context)?, context.uuid("id")?);
    let run_id = context.query("instance_id");
    // An invalid id matches no run.
    let run_id = run_id.map(|text| Uuid::parse_str(&text).unwrap_or_default());
    let lines = lines(&context, run_id).await?;
    let export = context.batch_exports().get(place, id).await?;
    let export = export.ok_or_else(ApiError::not_found)?.into();
    Ok(LogsBody { export, lines })
}

async fn of_run(context: Context) -> Result<Envelope<LineBody>, ApiError> {
    let (place, id, run_id) = (
        place(&context)?,
        context.uuid("id")?,
        context.uuid("run_id")?,
    );
    let run = context.export_runs().get(place, id, run_id).await?;
    run.ok_or_else(ApiError::not_found)?;
    lines(&context, Some(run_id)).await
}

async fn lines(context: &Context, run_id: Option<Uuid>) -> Result<Envelope<LineBody>, ApiError> {
    let (place, id) = (place(context)?, context.uuid("id")?);
    let page = context.page_up_to(LINES_MAX);
    let filter = ExportLogFilter {
        run_id,
        after: context.query_time("after")?,
        before: context.query_time("before")?,
        levels: levels(context)?,
        search: context.query("search"),
    };
    let read = async |page| {
        let found = context.export_logs().list(place, id, &filter, page);
        found.await?.ok_or_else(ApiError::not_found)
    };
    context.list(page, read).await
}

fn levels(context: &Context) -> Result<Vec<LogLevel>, ApiError> {
    let sent = context.query("level").unwrap_or_default();
    let names = sent
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let level = |name: &str| match name.to_ascii_uppercase().as_str() {
        "DEBUG" => Ok(LogLevel::Debug),
        "INFO" | "LOG" => Ok(LogLevel::Info),
        "WARNING" | "WARN" => Ok(LogLevel::Warning),
        "ERROR" => Ok(LogLevel::Error),
        _ => {
            let detail = "Give DEBUG, INFO, WARNING or ERROR, joined with commas.";
            Err(ApiError::invalid("invalid_choice", Some("level"), detail))
        }
    };
    names.map(level).collect()
}
