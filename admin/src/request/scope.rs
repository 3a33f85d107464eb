//! Organization and project that a path names.

use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{self, Operation};
use crate::request::uuid_text;
use millrace_catalog::{Catalog, Project, ProjectId};
use millrace_organizations::{Access, Caller, Organizations, Projects};
use std::sync::Arc;
use uuid::Uuid;

/// Alias of the caller's oldest organization, and of the project with the lowest id in it.
const CURRENT: &str = "@current";

/// Resolves `{organization_id}` and `{project_id}` of the path. For operations of the operator,
/// keys with the scope `operator` see every organization; for all others, callers see only
/// organizations that they are members of.
///
/// # Errors
///
/// 404 for foreign, unknown and malformed ids alike.
pub(crate) async fn resolve(
    catalog: &Catalog,
    caller: &Caller,
    operation: Option<&Operation>,
    context: &mut Context,
) -> Result<(), ApiError> {
    let is_operators =
        operation.is_some_and(|operation| operation.access == operation::Access::Operator);
    let lookup = OrganizationLookup {
        catalog,
        caller,
        as_operator: is_operators && caller.scopes.operate(),
    };
    let request = context.request.clone();
    let named = |name: &str| request.parameters.get(name).map(String::as_str);
    let mut organization = match named("organization_id") {
        Some(id) => Some(lookup.organization(id).await?),
        None => None,
    };
    if named("project_id").is_some() {
        let project = match (named("project_id"), &organization) {
            (Some(CURRENT), Some(access)) => lowest_project(catalog, access).await?,
            (Some(CURRENT), None) => {
                let access = lookup.organization(CURRENT).await?;
                lowest_project(catalog, &access).await?
            }
            _ => numbered_project(catalog, context.integer("project_id")?).await?,
        };
        let access = match organization.take() {
            Some(access) => access,
            None => lookup.visible(project.organization_id).await?,
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

/// Looks up organizations that the caller may see.
struct OrganizationLookup<'a> {
    catalog: &'a Catalog,
    caller: &'a Caller,
    as_operator: bool,
}

impl OrganizationLookup<'_> {
    async fn organization(&self, id: &str) -> Result<Access, ApiError> {
        let id = if id == CURRENT {
            Organizations::new(self.catalog)
                .current_of(self.caller)
                .await?
        } else {
            uuid_text::parse(id)
        };
        self.visible(id.ok_or_else(ApiError::not_found)?).await
    }

    async fn visible(&self, id: Uuid) -> Result<Access, ApiError> {
        let found = if self.as_operator {
            Organizations::new(self.catalog)
                .access_of_operator(self.caller, id)
                .await?
        } else {
            Organizations::new(self.catalog)
                .access(self.caller, id)
                .await?
        };
        found.ok_or_else(ApiError::not_found)
    }
}

async fn numbered_project(catalog: &Catalog, id: i64) -> Result<Project, ApiError> {
    let found = Projects::new(catalog).get(ProjectId(id)).await?;
    found.ok_or_else(ApiError::not_found)
}

async fn lowest_project(catalog: &Catalog, access: &Access) -> Result<Project, ApiError> {
    let all = Projects::new(catalog)
        .list_all(Some(access.organization.id))
        .await?;
    all.into_iter().next().ok_or_else(ApiError::not_found)
}
