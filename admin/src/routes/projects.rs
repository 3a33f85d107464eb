//! `/api/organizations/:organization_id/projects/`.

use super::activity::{ActivityLogEntry, entries};
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use crate::page::Envelope;
use crate::schema::Nothing;
use millrace_catalog::{
    ActivityScope, Level, Project, ProjectId, RequiredScope, UtcTime, features,
};
use millrace_organizations::{NewProject, ProjectChange, Projects};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

const ALL: &str = "/api/organizations/{organization_id}/projects/";
const ONE: &str = "/api/organizations/{organization_id}/projects/{project_id}/";
const ACTIVITY: &str = "/api/organizations/{organization_id}/projects/{project_id}/activity/";
const DEMO: &str =
    "/api/organizations/{organization_id}/projects/{project_id}/is_generating_demo_data/";
const RESET: &str = "/api/organizations/{organization_id}/projects/{project_id}/reset_token/";
/// Scopes for reading projects; those of organizations are accepted as well.
const READ: [RequiredScope; 2] = [
    RequiredScope::read("project"),
    RequiredScope::read("organization"),
];
const WRITE: [RequiredScope; 2] = [
    RequiredScope::write("project"),
    RequiredScope::write("organization"),
];

/// Operations of projects.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::list(ALL, list)
            .about("List the projects of an organization")
            .query(
                "search",
                "string",
                "Only projects whose names contain this.",
            )
            .scopes(&READ),
        Operation::create(ALL, create)
            .about("Create a project")
            .limited_by(&[Limit::Projects])
            .scopes(&WRITE)
            .level(Level::Administrator)
            .fails(400, "invalid_input", "There is no such time zone.")
            .fails(
                403,
                "payment_required",
                "The organization may have one project only.",
            )
            .fails(
                403,
                "permission_denied",
                "The organization has as many projects as it may have.",
            ),
        Operation::get(ONE, retrieve)
            .about("Read a project")
            .note("Its `ETag` leaves out `ingested_event`.")
            .live_fields(&["ingested_event"])
            .scopes(&READ),
        Operation::patch(ONE, &["name"], update)
            .about("Change a project")
            .scopes(&WRITE)
            .level(Level::Administrator)
            .fails(400, "invalid_input", "There is no such time zone."),
        Operation::delete(ONE, delete)
            .about("Delete a project and everything in it")
            .note("Its events stay in ClickHouse until the operator purges them.")
            .scopes(&WRITE)
            .level(Level::Administrator),
        Operation::list(ACTIVITY, activity)
            .about("List the changes of a project, newest first")
            .feature(features::AUDIT_LOGS)
            .scopes(&READ),
        Operation::get(DEMO, is_generating_demo_data)
            .about("Read whether demonstration events are being generated")
            .note("Always false: a project starts empty.")
            .scopes(&READ),
        Operation::patch_action(RESET, reset_token)
            .about("Replace the key of a project")
            .note("The old key is refused within two seconds.")
            .scopes(&WRITE)
            .level(Level::Administrator),
    ]
}

/// A project in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProjectItem {
    /// Id of the project.
    id: i64,
    /// UUID of the project.
    uuid: Uuid,
    /// Id of the organization.
    organization: Uuid,
    /// Equals `id`: a project has one team.
    project_id: i64,
    /// Key with which clients send events.
    api_token: Option<String>,
    /// Name of the project.
    name: String,
    /// Always false: the server knows no onboarding.
    completed_snippet_onboarding: bool,
    /// Always null: the server knows no onboarding.
    has_completed_onboarding_for: Option<Value>,
    /// True if the project has ever received an event.
    ingested_event: bool,
    /// Always false: no project has demonstration events.
    is_demo: bool,
    /// IANA name of the time zone.
    timezone: String,
    /// Always false: every member may see the project.
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
            ingested_event: project.ingested_event,
            is_demo: false,
            timezone: project.timezone,
            access_control: false,
        }
    }
}

/// A project with all of its settings.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Project")]
struct ProjectBody {
    #[serde(flatten)]
    item: ProjectItem,
    /// Time of the creation.
    created_at: UtcTime,
    /// Time of the last change.
    updated_at: UtcTime,
    /// True if clients' IP addresses are left out of events.
    anonymize_ips: bool,
}

impl From<Project> for ProjectBody {
    fn from(project: Project) -> Self {
        Self {
            created_at: project.created_at,
            updated_at: project.updated_at,
            anonymize_ips: project.anonymize_ips,
            item: project.into(),
        }
    }
}

/// The state of demonstration events.
#[derive(Debug, Serialize, JsonSchema)]
struct DemoData {
    /// Always false: the server makes no demonstration events.
    is_generating_demo_data: bool,
}

async fn list(context: Context) -> Result<Envelope<ProjectItem>, ApiError> {
    let (id, page) = (context.organization_id()?, context.page());
    let search = context.query("search");
    let catalog = context.catalog();
    let read = |page| Projects::new(catalog).list(id, search.as_deref(), page);
    context.list(page, read).await
}

async fn create(context: Context, new: NewProject) -> Result<ProjectBody, ApiError> {
    let (actor, id) = (context.actor()?, context.organization_id()?);
    let made = context.projects().create(&actor, id, new).await?;
    Ok(made.into())
}

async fn retrieve(context: Context) -> Result<ProjectBody, ApiError> {
    Ok(context.project()?.clone().into())
}

async fn update(context: Context, change: ProjectChange) -> Result<ProjectBody, ApiError> {
    let (actor, id) = (context.actor()?, context.organization_id()?);
    let changed = context
        .projects()
        .update(&actor, id, project_id(&context)?, change);
    Ok(changed.await?.into())
}

async fn delete(context: Context) -> Result<(), ApiError> {
    let (actor, id) = (context.actor()?, context.organization_id()?);
    let deleted = context.projects().delete(&actor, id, project_id(&context)?);
    Ok(deleted.await?)
}

async fn activity(context: Context) -> Result<Envelope<ActivityLogEntry>, ApiError> {
    let id = context.project()?.id.to_string();
    entries(&context, vec![ActivityScope::Project], Some(id)).await
}

async fn is_generating_demo_data(_: Context) -> Result<DemoData, ApiError> {
    Ok(DemoData {
        is_generating_demo_data: false,
    })
}

async fn reset_token(context: Context, _: Nothing) -> Result<ProjectBody, ApiError> {
    let (actor, id) = (context.actor()?, context.organization_id()?);
    let reset = context
        .project_key_changes()
        .reset(&actor, id, project_id(&context)?);
    Ok(reset.await?.into())
}

fn project_id(context: &Context) -> Result<ProjectId, ApiError> {
    Ok(ProjectId(context.project()?.id))
}
