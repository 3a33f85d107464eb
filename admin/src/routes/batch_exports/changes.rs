//! Wire types of requests that create and change exports.

use super::bodies::{ModelName, TypeName};
use super::destinations::{self, Direction};
use crate::error::ApiError;
use millrace_catalog::text::ANY;
use millrace_catalog::{ExportModel, Patch, ProjectId, UtcTime};
use millrace_exports::query::ExportQuery;
use millrace_exports::{BatchExportChange, DestinationChange, NewBatchExport};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Destination of a new export.
#[derive(Debug, Deserialize)]
struct NewDestination {
    #[serde(rename = "type")]
    kind: TypeName,
    /// Fields of the type; others are ignored.
    #[serde(default)]
    config: Patch<Map<String, Value>>,
}

impl JsonSchema for NewDestination {
    fn schema_name() -> Cow<'static, str> {
        "NewBatchExportDestination".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        destinations::schema(generator, Direction::New)
    }
}

/// Changes of an export's destination.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PatchDestination {
    /// Type of the destination. Another type than before starts from an empty configuration.
    #[serde(rename = "type")]
    kind: Patch<TypeName>,
    /// Fields to change; null removes one.
    config: Patch<Map<String, Value>>,
}

impl JsonSchema for PatchDestination {
    fn schema_name() -> Cow<'static, str> {
        "PatchBatchExportDestination".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        destinations::schema(generator, Direction::Change)
    }
}

/// Fields of a new batch export.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "NewBatchExport")]
pub(super) struct NewBody {
    /// Name of the export.
    #[schemars(length(min = 1, max = 400), regex(pattern = r"\S"))]
    name: String,
    /// Destination of the rows: its type, and the fields of the type.
    destination: NewDestination,
    /// Interval of the runs: `hour`, `day`, `week` or `every N minutes`, with N from 5 to 59.
    interval: String,
    /// Kind of rows to export; `events` if not given.
    #[serde(default)]
    model: Patch<ModelName>,
    /// True if the export begins paused; false if not given.
    #[serde(default)]
    paused: Patch<bool>,
    /// Time of the last pause in another system; it is shown, and has no effect.
    #[serde(default)]
    last_paused_at: Patch<Option<UtcTime>>,
    /// Time before which no run starts.
    #[serde(default)]
    start_at: Patch<Option<UtcTime>>,
    /// Time after which no run starts.
    #[serde(default)]
    end_at: Patch<Option<UtcTime>>,
    /// Query that selects rows and columns: one SELECT in ClickHouse's SQL over `events`, `persons`
    /// or `groups`; null: all rows.
    #[serde(default)]
    #[schemars(extend("x-text" = ANY))]
    hogql_query: Patch<Option<String>>,
    /// Id of the project whose rows are exported; the organization's first project if not given.
    /// Ignored in paths below a project, which name it.
    #[serde(default)]
    team_id: Patch<i64>,
}

/// Fields of a batch export to change.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "PatchBatchExport")]
#[serde(default)]
pub(super) struct PatchBody {
    /// Name of the export.
    #[schemars(length(min = 1, max = 400), regex(pattern = r"\S"))]
    name: Patch<String>,
    /// Destination of the rows: its type, and the fields that change.
    destination: Patch<PatchDestination>,
    /// Interval of the runs: `hour`, `day`, `week` or `every N minutes`, with N from 5 to 59.
    interval: Patch<String>,
    /// Kind of rows to export.
    model: Patch<ModelName>,
    /// True to stop runs from starting.
    paused: Patch<bool>,
    /// Time of the last pause in another system; it is shown, and has no effect.
    last_paused_at: Patch<Option<UtcTime>>,
    /// Time before which no run starts.
    start_at: Patch<Option<UtcTime>>,
    /// Time after which no run starts.
    end_at: Patch<Option<UtcTime>>,
    /// Query that selects rows and columns: one SELECT in ClickHouse's SQL over `events`, `persons`
    /// or `groups`; null: all rows.
    #[schemars(extend("x-text" = ANY))]
    hogql_query: Patch<Option<String>>,
}

impl From<PatchDestination> for DestinationChange {
    fn from(sent: PatchDestination) -> Self {
        Self {
            kind: sent.kind.sent().map(Into::into),
            config: sent.config.sent().unwrap_or_default(),
        }
    }
}

impl NewBody {
    /// Converts the body for the catalog, with the query checked.
    pub(super) fn checked(self) -> Result<NewBatchExport, ApiError> {
        let query = query(self.hogql_query.sent().flatten())?;
        let (hogql_query, query_schema) = query.unzip();
        let model = self.model.sent().map(ExportModel::from);
        Ok(NewBatchExport {
            project_id: self.team_id.sent().map(ProjectId),
            name: self.name,
            model: model.unwrap_or(ExportModel::Events),
            destination: DestinationChange {
                kind: Some(self.destination.kind.into()),
                config: self.destination.config.sent().unwrap_or_default(),
            },
            interval: self.interval,
            paused: self.paused.sent().unwrap_or(false),
            last_paused_at: self.last_paused_at.sent().flatten(),
            start_at: self.start_at.sent().flatten(),
            end_at: self.end_at.sent().flatten(),
            hogql_query,
            query_schema,
        })
    }
}

impl PatchBody {
    /// Converts the body for the catalog, with the query checked.
    pub(super) fn checked(self) -> Result<BatchExportChange, ApiError> {
        let destination = self.destination.sent().map(DestinationChange::from);
        Ok(BatchExportChange {
            name: self.name.sent(),
            model: self.model.sent().map(ExportModel::from),
            destination,
            interval: self.interval.sent(),
            paused: self.paused.sent(),
            last_paused_at: self.last_paused_at.sent(),
            start_at: self.start_at.sent(),
            end_at: self.end_at.sent(),
            query: self.hogql_query.sent().map(query).transpose()?,
        })
    }
}

/// Parses a query; returns its text and its columns and values.
fn query(text: Option<String>) -> Result<Option<(String, Value)>, ApiError> {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
        return Ok(None);
    };
    let query = ExportQuery::parse(&text).map_err(|error| {
        ApiError::invalid("invalid_input", Some("hogql_query"), error.to_string())
    })?;
    Ok(Some((text, query.schema())))
}
