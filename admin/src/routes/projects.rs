//! `/api/organizations/:organization_id/projects/`.

use super::{iso8601, organization};
use crate::api::{Request, answer, request};
use crate::auth::authenticate;
use crate::error::ApiError;
use crate::page::{Envelope, requested};
use millrace_catalog::{Caller, Catalog, Need, Project};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;
use warp::Filter;
use warp::Rejection;
use warp::reply::Response;

/// `organization:*` is accepted for projects as well.
const READ: [Need; 2] = [Need::read("project"), Need::read("organization")];

/// A project in a list.
#[derive(Debug, Serialize)]
pub(crate) struct ProjectItem {
    id: i64,
    uuid: Uuid,
    organization: Uuid,
    /// The same as `id`: a project has one team.
    project_id: i64,
    api_token: Option<String>,
    name: String,
    completed_snippet_onboarding: bool,
    has_completed_onboarding_for: Option<Value>,
    ingested_event: bool,
    is_demo: bool,
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

/// One project.
#[derive(Debug, Serialize)]
struct ProjectBody {
    #[serde(flatten)]
    item: ProjectItem,
    created_at: String,
    updated_at: String,
    anonymize_ips: bool,
}

impl From<Project> for ProjectBody {
    fn from(project: Project) -> Self {
        Self {
            created_at: iso8601(project.created_at),
            updated_at: iso8601(project.updated_at),
            anonymize_ips: project.anonymize_ips,
            item: project.into(),
        }
    }
}

/// The routes of this resource.
pub(crate) fn routes(
    catalog: Catalog,
) -> impl Filter<Extract = (Response,), Error = Rejection> + Clone {
    collection(catalog.clone()).or(single(catalog)).unify()
}

/// GET /api/organizations/:organization_id/projects/
fn collection(catalog: Catalog) -> impl Filter<Extract = (Response,), Error = Rejection> + Clone {
    warp::path!("api" / "organizations" / String / "projects")
        .and(request(catalog))
        .then(|id: String, request: Request| async move { answer(list(&id, &request).await) })
}

/// GET /api/organizations/:organization_id/projects/:id/
fn single(catalog: Catalog) -> impl Filter<Extract = (Response,), Error = Rejection> + Clone {
    warp::path!("api" / "organizations" / String / "projects" / String)
        .and(request(catalog))
        .then(
            |organization_id: String, id: String, request: Request| async move {
                answer(retrieve(&organization_id, &id, &request).await)
            },
        )
}

async fn list(organization_id: &str, request: &Request) -> Result<Envelope<ProjectItem>, ApiError> {
    let projects = visible(organization_id, request).await?;
    let page = requested(&request.uri);
    let count = projects.len() as u64;
    let skip = usize::try_from(page.offset).unwrap_or(usize::MAX);
    let take = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let part = projects.into_iter().skip(skip).take(take);
    let results = part.map(ProjectItem::from).collect();
    Ok(Envelope::new(request, page, count, results))
}

async fn retrieve(
    organization_id: &str,
    id: &str,
    request: &Request,
) -> Result<ProjectBody, ApiError> {
    let projects = visible(organization_id, request).await?;
    let mut projects = projects.into_iter();
    let found = if id == "@current" {
        projects.next()
    } else {
        let id: Option<i64> = id.parse().ok();
        projects.find(|project| Some(project.id) == id)
    };
    found.map(ProjectBody::from).ok_or_else(ApiError::not_found)
}

/// The organization's projects, lowest id first, once the caller has passed.
async fn visible(organization_id: &str, request: &Request) -> Result<Vec<Project>, ApiError> {
    let catalog: &Catalog = &request.catalog;
    let caller: Caller = authenticate(catalog, &request.headers, &READ).await?;
    request.must_read()?;
    let seen = organization(catalog, &caller, organization_id).await?;
    Ok(seen.projects)
}
