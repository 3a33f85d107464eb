//! What a path speaks of: an organization, and perhaps a project in it.

use crate::context::Context;
use crate::error::ApiError;
use millrace_catalog::{Access, Caller, Catalog, Project, TeamId};
use std::sync::Arc;
use uuid::Uuid;

/// Stands for the caller's oldest membership, and for the lowest project in it.
const CURRENT: &str = "@current";

/// Finds what `{organization_id}` and `{project_id}` of the path name.
///
/// # Errors
///
/// 404 for foreign, unknown and malformed ids alike.
pub(crate) async fn resolve(
    catalog: &Catalog,
    caller: &Caller,
    context: &mut Context,
) -> Result<(), ApiError> {
    let request = context.request.clone();
    let named = |name: &str| request.parameters.get(name).map(String::as_str);
    let mut organization = match named("organization_id") {
        Some(id) => Some(organization(catalog, caller, id).await?),
        None => None,
    };
    if named("project_id").is_some() {
        let project = match (named("project_id"), &organization) {
            (Some(CURRENT), Some(access)) => lowest_project(catalog, access).await?,
            (Some(CURRENT), None) => {
                let access = self::organization(catalog, caller, CURRENT).await?;
                lowest_project(catalog, &access).await?
            }
            _ => numbered_project(catalog, context.integer("project_id")?).await?,
        };
        let access = match organization.take() {
            Some(access) => access,
            None => visible(catalog, caller, project.organization_id).await?,
        };
        if project.organization_id != access.organization.id {
            return Err(ApiError::not_found());
        }
        organization = Some(access);
        context.project = Some(Arc::new(project));
    }
    context.organization = organization.map(Arc::new);
    Ok(())
}

async fn organization(catalog: &Catalog, caller: &Caller, id: &str) -> Result<Access, ApiError> {
    let id = if id == CURRENT {
        catalog.current_organization_of(caller).await?
    } else {
        Uuid::parse_str(id).ok()
    };
    visible(catalog, caller, id.ok_or_else(ApiError::not_found)?).await
}

async fn visible(catalog: &Catalog, caller: &Caller, id: Uuid) -> Result<Access, ApiError> {
    let found = catalog.access(caller, id).await?;
    found.ok_or_else(ApiError::not_found)
}

async fn numbered_project(catalog: &Catalog, id: i64) -> Result<Project, ApiError> {
    let found = catalog.project(TeamId(id)).await?;
    found.ok_or_else(ApiError::not_found)
}

async fn lowest_project(catalog: &Catalog, access: &Access) -> Result<Project, ApiError> {
    let all = catalog.list_projects(Some(access.organization.id)).await?;
    all.into_iter().next().ok_or_else(ApiError::not_found)
}
