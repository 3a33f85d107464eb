//! `/api/organizations/:organization_id/projects/`.

use crate::context::Context;
use crate::error::ApiError;
use crate::operation::Operation;
use crate::page::Envelope;
use crate::timestamp::Timestamp;
use millrace_catalog::{Need, Project};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

const ALL: &str = "/api/organizations/{organization_id}/projects/";
const ONE: &str = "/api/organizations/{organization_id}/projects/{project_id}/";
/// `organization:*` is accepted for projects as well.
const READ: [Need; 2] = [Need::read("project"), Need::read("organization")];

/// This resource's rows of the table.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::list(ALL, list)
            .about("List the projects of an organization")
            .query("search", "string", "Only those with this in their names.")
            .scopes(&READ),
        Operation::get(ONE, retrieve)
            .about("Read a project")
            .scopes(&READ),
    ]
}

/// A project in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProjectItem {
    id: i64,
    uuid: Uuid,
    organization: Uuid,
    /// The same as `id`: a project has one team.
    project_id: i64,
    /// The key that clients send events with.
    api_token: Option<String>,
    name: String,
    completed_snippet_onboarding: bool,
    has_completed_onboarding_for: Option<Value>,
    ingested_event: bool,
    is_demo: bool,
    /// IANA name.
    timezone: String,
    access_control: bool,
}

impl From<Project> for ProjectItem {
    fn from(project: Project) -> Self {
        Self {
            id: project.id,
            uuid: project.uuid,
            organization: project.organization_id,
            project_id: project.id,
            api_token: project.api_token,
            name: project.name,
            completed_snippet_onboarding: false,
            has_completed_onboarding_for: None,
            ingested_event: false,
            is_demo: false,
            timezone: project.timezone,
            access_control: false,
        }
    }
}

/// A project.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Project")]
struct ProjectBody {
    #[serde(flatten)]
    item: ProjectItem,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// Whether clients' addresses are left out of events.
    anonymize_ips: bool,
}

impl From<Project> for ProjectBody {
    fn from(project: Project) -> Self {
        Self {
            created_at: project.created_at.into(),
            updated_at: project.updated_at.into(),
            anonymize_ips: project.anonymize_ips,
            item: project.into(),
        }
    }
}

async fn list(context: Context) -> Result<Envelope<ProjectItem>, ApiError> {
    let (id, page) = (context.organization_id()?, context.page());
    let search = context.query("search");
    let found = context
        .catalog()
        .projects_of(id, search.as_deref(), page)
        .await?;
    Ok(context.envelope(page, found))
}

async fn retrieve(context: Context) -> Result<ProjectBody, ApiError> {
    Ok(context.project()?.clone().into())
}
