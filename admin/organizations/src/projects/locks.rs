//! Projects that are about to be changed: their locks, and their entries of the activity log.

use millrace_catalog::entities::projects;
use millrace_catalog::transaction::{Abort, lock_organization, locked, must_act_as};
use millrace_catalog::{Activity, ActivityScope, Actor, AuditChange, ChangeError, Level};
use millrace_rows::ProjectId;
use sea_orm::prelude::Uuid;
use sea_orm::{DatabaseTransaction, EntityTrait};

/// Reads and locks a project that is about to be changed.
pub(super) async fn lock_project(
    within: &DatabaseTransaction,
    project_id: ProjectId,
) -> Result<projects::Model, Abort> {
    let query = locked(within, projects::Entity::find_by_id(project_id.0));
    let found = query.one(within).await?;
    found.ok_or_else(|| ChangeError::not_found("project", &project_id).into())
}

/// Reads and locks a project of an organization that an actor may change.
pub(super) async fn lock_project_of(
    within: &DatabaseTransaction,
    actor: &Actor,
    organization_id: Uuid,
    project_id: ProjectId,
) -> Result<projects::Model, Abort> {
    // Deleting an organization locks it before its projects.
    lock_organization(within, organization_id).await?;
    let project = lock_project(within, project_id).await?;
    if project.organization_id != organization_id {
        return Err(ChangeError::not_found("project", &project_id).into());
    }
    must_act_as(within, actor, organization_id, Level::Administrator).await?;
    Ok(project)
}

/// Entry of the activity log about a project.
pub(super) fn project_audit(activity: Activity, project: &projects::Model) -> AuditChange {
    let organization_id = project.organization_id;
    let scope = ActivityScope::Project;
    AuditChange::new(activity, scope, organization_id, &project.id, &project.name)
}
