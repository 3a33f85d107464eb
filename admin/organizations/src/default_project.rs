//! Project of a new resource: the requested one, or the organization's first.

use millrace_catalog::ChangeError;
use millrace_catalog::entities::projects;
use millrace_catalog::transaction::{Abort, locked};
use millrace_rows::ProjectId;
use sea_orm::prelude::Uuid;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder};

/// Locks the requested project, if it is the organization's, or without a request its first one,
/// until the transaction ends. The organization must be locked already, as deleting one locks it
/// before its projects.
///
/// # Errors
///
/// The organization has no such project, or none.
pub async fn project_or_default(
    within: &DatabaseTransaction,
    organization_id: Uuid,
    requested: Option<ProjectId>,
) -> Result<ProjectId, Abort> {
    let mut query = projects::Entity::find()
        .filter(projects::Column::OrganizationId.eq(organization_id))
        .order_by_asc(projects::Column::Id);
    if let Some(project_id) = requested {
        query = query.filter(projects::Column::Id.eq(project_id.0));
    }
    match (locked(within, query).one(within).await?, requested) {
        (Some(project), _) => Ok(ProjectId(project.id)),
        (None, Some(project_id)) => {
            let detail = format!("the organization has no project {project_id}");
            Err(ChangeError::invalid("team_id", "invalid_input", detail).into())
        }
        (None, None) => {
            let detail = "the organization has no project; create one first";
            Err(ChangeError::invalid("team_id", "required", detail).into())
        }
    }
}
