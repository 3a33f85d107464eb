//! `/api/projects/:project_id/property_columns/`: properties of a project that are columns of
//! `events`.

use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use millrace_catalog::limits::{PROPERTY_COLUMN_BYTES_MAX, PROPERTY_COLUMNS_MAX};
use millrace_catalog::{
    Level, ProjectId, PropertyColumnRecord, PropertyColumnType, RequiredScope, UtcTime,
};
use millrace_organizations::{ProjectColumns, PropertyColumnsChange};
use millrace_rows::PropertyColumn;
use schemars::JsonSchema;
use serde::Serialize;

const ONE: &str = "/api/projects/{project_id}/property_columns/";
/// Scopes as of projects.
const READ: [RequiredScope; 2] = [
    RequiredScope::read("project"),
    RequiredScope::read("organization"),
];
const WRITE: [RequiredScope; 2] = [
    RequiredScope::write("project"),
    RequiredScope::write("organization"),
];

/// Operations of property columns.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::get(ONE, retrieve)
            .about("Read the properties of a project that are columns of `events`")
            .note(
                "Columns in `pending` are not there yet. The `ETag` leaves `pending` out. Rows of \
                 other projects have no values in a project's columns.",
            )
            .live_fields(&["pending"])
            .scopes(&READ),
        Operation::patch(ONE, &["columns"], update)
            .about("Choose the properties of a project that are columns of `events`")
            .note(
                "New columns are filled from the next seconds on, and for past events one month \
                 after the other, from the newest. A property that does not fit its column's type \
                 is empty there, or null; `properties` always has it as it was sent. Queries that \
                 name a column fail once it is removed.",
            )
            .limited_by(&[
                Limit::PropertyColumns,
                Limit::OrganizationPropertyColumns,
                Limit::AllPropertyColumns,
                Limit::PropertyColumnBytes,
            ])
            .scopes(&WRITE)
            .level(Level::Administrator)
            .fails(
                400,
                "invalid_input",
                "The columns take more bytes of an event than they may.",
            )
            .fails(
                400,
                "unique",
                "The property has a column of this type already, of the project or of all.",
            )
            .fails(
                403,
                "permission_denied",
                "The organization, or all of them together, have as many columns as they may have.",
            ),
    ]
}

/// Property that is a column of `events`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PropertyColumn")]
struct ColumnBody {
    /// Keys that lead to the property, from those of `properties` on.
    path: Vec<String>,
    /// Type of the column.
    #[serde(rename = "type")]
    kind: PropertyColumnType,
    /// Longest text that is kept, in bytes; null for other types.
    bytes_max: Option<i32>,
    /// Name of the column in `events`.
    name: String,
    /// Time of the creation.
    created_at: UtcTime,
}

/// Properties of a project that are columns of `events`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PropertyColumns")]
struct ColumnsBody {
    /// Columns of the project.
    columns: Vec<ColumnBody>,
    /// Columns that the operator named for all projects.
    shared_columns: Vec<ColumnBody>,
    /// Names of columns that `events` does not have yet.
    pending: Vec<String>,
    /// Bytes that the project's columns take of an event at most.
    bytes: u64,
    /// Most bytes that they may take.
    bytes_max: u64,
    /// Most columns of the project.
    columns_max: u64,
}

impl From<PropertyColumnRecord> for ColumnBody {
    fn from(row: PropertyColumnRecord) -> Self {
        Self {
            name: PropertyColumn::from(&row).name(),
            path: row.path.0,
            kind: row.kind,
            bytes_max: row.bytes_max,
            created_at: row.created_at,
        }
    }
}

impl From<ProjectColumns> for ColumnsBody {
    fn from(columns: ProjectColumns) -> Self {
        let all = columns.own.iter().chain(&columns.shared);
        let pending = all.filter(|row| row.added_at.is_none());
        Self {
            pending: pending
                .map(|row| PropertyColumn::from(row).name())
                .collect(),
            bytes: columns.row_bytes(),
            bytes_max: PROPERTY_COLUMN_BYTES_MAX,
            columns_max: PROPERTY_COLUMNS_MAX,
            columns: columns.own.into_iter().map(ColumnBody::from).collect(),
            shared_columns: columns.shared.into_iter().map(ColumnBody::from).collect(),
        }
    }
}

async fn retrieve(context: Context) -> Result<ColumnsBody, ApiError> {
    let project_id = ProjectId(context.project()?.id);
    let columns = context.property_columns().of_project(project_id).await?;
    Ok(columns.into())
}

async fn update(context: Context, change: PropertyColumnsChange) -> Result<ColumnsBody, ApiError> {
    let (actor, organization_id) = (context.actor()?, context.organization_id()?);
    let project_id = ProjectId(context.project()?.id);
    let columns = context.property_columns();
    let replaced = columns.replace(&actor, organization_id, project_id, change);
    Ok(replaced.await?.into())
}
