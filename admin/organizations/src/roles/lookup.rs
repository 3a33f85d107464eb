//! Rows of roles, and their entries of the activity log.

use millrace_catalog::entities::roles;
use millrace_catalog::transaction::Abort;
use millrace_catalog::{Activity, ActivityScope, AuditChange, ChangeError};
use sea_orm::prelude::Uuid;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, Select};

pub(super) fn of_organization(organization_id: Uuid) -> Select<roles::Entity> {
    roles::Entity::find().filter(roles::Column::OrganizationId.eq(organization_id))
}

pub(super) async fn must_find<C: ConnectionTrait>(
    db: &C,
    organization_id: Uuid,
    id: Uuid,
) -> Result<roles::Model, Abort> {
    let query = of_organization(organization_id).filter(roles::Column::Id.eq(id));
    let found = query.one(db).await?;
    found.ok_or_else(|| ChangeError::not_found("role", &id).into())
}

pub(super) fn role_audit(activity: Activity, role: &roles::Model) -> AuditChange {
    let (scope, id) = (ActivityScope::Role, role.organization_id);
    AuditChange::new(activity, scope, id, &role.id, &role.name)
}
